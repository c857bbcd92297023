// Which switches a session spans: the one that all ranks are attached to, or those on the paths to the nearest switch
// that all of them have above them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "controller/topology.h"

namespace switchml::controller {

struct TreeNode {
  int at = 0;                 // the switch: an index into Topology::switches
  int parent = kNone;         // index into Tree::nodes; kNone: the root
  int number = kNone;         // worker number at the parent: the smallest rank beneath
  Link up;                    // to the parent
  std::vector<int> ranks;     // attached to this very switch, ascending
  std::vector<int> children;  // indices into Tree::nodes
};

struct Tree {
  std::vector<TreeNode> nodes;    // the root first, parents before children
  std::vector<int> node_of_rank;  // index into nodes

  /// Worker numbers that contribute at a node, ascending.
  std::vector<uint32_t> members(const TreeNode& node) const;
  /// The node at a switch; null if the tree does not go there.
  const TreeNode* at_switch(int index) const;
};

/// Where a rank is: indices into the topology.
struct Attachment {
  int at = 0;          // the switch
  int worker = kNone;  // kNone: the topology names no workers
};

/// Where each rank is attached, by the first of its addresses that the topology knows. kInvalidArgument names the rank
/// and its addresses. Without workers in the topology all ranks are at its only switch.
Result<std::vector<Attachment>> attach(const Topology& topology, const std::vector<std::vector<Endpoint>>& ranks);

/// The tree over the switches of the ranks (at least one). kInvalidArgument: two of them have no switch in common above
/// them.
Result<Tree> choose_tree(const Topology& topology, const std::vector<Attachment>& ranks);

}  // namespace switchml::controller
