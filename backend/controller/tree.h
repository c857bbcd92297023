// The tree of switches that a session spans: the switch that all ranks are attached to, or the paths to the nearest
// switch above all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "controller/topology.h"

namespace switchml::controller {

struct TreeNode {
  int at = 0;          // The switch: an index into Topology::switches.
  int parent = kNone;  // Index into Tree::nodes; kNone: the root.
  int number = kNone;  // Worker number at the parent: the smallest rank beneath.
  UplinkSpec up;
  std::vector<int> ranks;     // Ranks attached to this very switch, ascending.
  std::vector<int> children;  // Indices into Tree::nodes.
};

struct Tree {
  std::vector<TreeNode> nodes;    // The root first, parents before children.
  std::vector<int> node_of_rank;  // Rank -> index into nodes.

  /// Numbers of the workers that contribute at a node, ascending.
  std::vector<uint32_t> members(const TreeNode& node) const;
  const TreeNode* at_switch(int index) const;
};

/// A rank's position: indices into the topology.
struct Attachment {
  int at = 0;          // The switch.
  int worker = kNone;  // kNone: the topology names no workers.
};

/// The ranks' attachments, by the first of a rank's addresses that the topology knows. kInvalidArgument names the rank
/// and its addresses. Without workers in the topology all ranks are at its only switch.
Result<std::vector<Attachment>> attach(const Topology& topology, const std::vector<std::vector<Endpoint>>& ranks);

/// The tree over the switches of the ranks (at least one). kInvalidArgument: two of them have no switch in common above
/// them.
Result<Tree> choose_tree(const Topology& topology, const std::vector<Attachment>& ranks);

}  // namespace switchml::controller
