#include "controller/tree.h"

#include <algorithm>
#include <string>

#include "socket/address.h"

namespace switchml::controller {

namespace {

Status unknown_rank(size_t rank, const std::vector<Endpoint>& addresses) {
  std::string text;
  for (const Endpoint& address : addresses) text += (text.empty() ? "" : ", ") + to_string(with_port(address, 0));
  return {Code::kInvalidArgument, "rank " + std::to_string(rank) + " with addresses (" + text +
                                      ") is none of the topology's workers: give one of the addresses listed there"};
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// The lowest switch on all paths; kNone if there is none.
int nearest_common(const Topology& topology, const std::vector<int>& switches) {
  for (const int candidate : path_to_root(topology, switches.front())) {
    const bool common = std::all_of(switches.begin(), switches.end(),
                                    [&](int s) { return contains(path_to_root(topology, s), candidate); });
    if (common) return candidate;
  }
  return kNone;
}

/// Names two ranks without a common switch. Precondition: there are such.
Status apart(const Topology& topology, const std::vector<int>& switches) {
  size_t rank = 1;
  while (nearest_common(topology, {switches.front(), switches[rank]}) != kNone) ++rank;
  const auto name = [&](int index) { return "\"" + topology.switches[static_cast<size_t>(index)].name + "\""; };
  return {Code::kInvalidArgument, "rank 0 is at switch " + name(switches.front()) + " and rank " +
                                      std::to_string(rank) + " at switch " + name(switches[rank]) +
                                      ", which have no switch above them in common"};
}

/// The path from the root down to `to`, without what is above the root.
std::vector<int> path_down(const Topology& topology, int root, int to) {
  std::vector<int> path = path_to_root(topology, to);
  path.erase(std::find(path.begin(), path.end(), root) + 1, path.end());
  std::reverse(path.begin(), path.end());
  return path;
}

/// The node at a switch, made if the tree has none yet.
int node_at(const Topology& topology, Tree* tree, int at, int parent) {
  for (size_t i = 0; i < tree->nodes.size(); ++i) {
    if (tree->nodes[i].at == at) return static_cast<int>(i);
  }
  const int index = static_cast<int>(tree->nodes.size());
  TreeNode node;
  node.at = at;
  node.parent = parent;
  node.up = topology.switches[static_cast<size_t>(at)].up;
  tree->nodes.push_back(node);
  if (parent != kNone) tree->nodes[static_cast<size_t>(parent)].children.push_back(index);
  return index;
}

/// Ranks come in ascending order, so the first that passes a node is the smallest beneath it.
void add_rank(const Topology& topology, int rank, int attached, Tree* tree) {
  int node = kNone;
  for (const int at : path_down(topology, tree->nodes.front().at, attached)) {
    node = node_at(topology, tree, at, node);
    TreeNode& entry = tree->nodes[static_cast<size_t>(node)];
    if (entry.number == kNone) entry.number = rank;  // [TREE-2]
  }
  tree->nodes[static_cast<size_t>(node)].ranks.push_back(rank);
  tree->node_of_rank.push_back(node);
}

}  // namespace

std::vector<uint32_t> Tree::members(const TreeNode& node) const {
  std::vector<uint32_t> numbers(node.ranks.begin(), node.ranks.end());
  for (const int child : node.children) {
    numbers.push_back(static_cast<uint32_t>(nodes[static_cast<size_t>(child)].number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

const TreeNode* Tree::at_switch(int index) const {
  for (const TreeNode& node : nodes) {
    if (node.at == index) return &node;
  }
  return nullptr;
}

Result<std::vector<Attachment>> attach(const Topology& topology, const std::vector<std::vector<Endpoint>>& ranks) {
  std::vector<Attachment> attached;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Attachment place;
    for (const Endpoint& address : ranks[rank]) {
      if (place.worker == kNone) place.worker = worker_at(topology, address);
    }
    if (place.worker != kNone) {
      place.at = topology.workers[static_cast<size_t>(place.worker)].attached;
    } else if (!topology.workers.empty()) {
      return unknown_rank(rank, ranks[rank]);
    }
    attached.push_back(place);
  }
  return attached;
}

Result<Tree> choose_tree(const Topology& topology, const std::vector<Attachment>& ranks) {
  std::vector<int> switches;
  switches.reserve(ranks.size());
  for (const Attachment& place : ranks) switches.push_back(place.at);
  const int root = nearest_common(topology, switches);
  if (root == kNone) return apart(topology, switches);
  Tree tree;
  node_at(topology, &tree, root, kNone);
  for (size_t rank = 0; rank < switches.size(); ++rank) {
    add_rank(topology, static_cast<int>(rank), switches[rank], &tree);
  }
  tree.nodes.front().number = kNone;
  return tree;
}

}  // namespace switchml::controller
