#include "controller/silent_paths.h"

#include <algorithm>

#include "base/limits.h"
#include "socket/address.h"

namespace switchml::controller {

namespace {

constexpr Duration kApart = milliseconds(200);  // A repeated aggregate has arrived by then, unless it was lost again.
constexpr Duration kLately = seconds(5);        // Workers that wait probe once a second.

SilentPath path_of(const Tree& tree, size_t node, SlotUseName use) {
  const TreeNode& child = tree.nodes[node];
  return {child.at, tree.nodes[static_cast<size_t>(child.parent)].at, use};
}

}  // namespace

void UseInTree::answered(size_t node, const std::vector<uint32_t>& members) {
  known_[node].answered = true;
  for (const uint32_t member : members) {
    if (member < kMaxWorkers) known_[node].members.insert(static_cast<int>(member));
  }
}

bool UseInTree::aggregated(size_t node) const {
  const std::vector<uint32_t> members = tree_.members(tree_.nodes[node]);
  return std::all_of(members.begin(), members.end(),
                     [&](uint32_t member) { return known_[node].members.test(static_cast<int>(member)); });
}

bool UseInTree::passed_on(size_t node) const {
  const TreeNode& child = tree_.nodes[node];
  return aggregated(node) && known_[static_cast<size_t>(child.parent)].members.test(child.number);
}

bool UseInTree::held_up(size_t node) const {
  return aggregated(node) && known_[static_cast<size_t>(tree_.nodes[node].parent)].answered && !passed_on(node);
}

std::vector<size_t> UseInTree::held_up() const {
  std::vector<size_t> nodes;
  for (size_t node = 1; node < tree_.nodes.size(); ++node) {
    if (held_up(node)) nodes.push_back(node);
  }
  return nodes;
}

// [TREE-10]
WorkerSet UseInTree::contributed() const {
  std::vector<bool> stuck(tree_.nodes.size(), false);  // Stuck here or above.
  WorkerSet set;
  for (size_t node = 0; node < tree_.nodes.size(); ++node) {  // Parents come first.
    const TreeNode& entry = tree_.nodes[node];
    // A use that is not aggregated here waits for other ranks, whatever the paths above.
    if (entry.parent != kNone && aggregated(node)) {
      stuck[node] = held_up(node) || stuck[static_cast<size_t>(entry.parent)];
    }
    for (const int rank : entry.ranks) {
      // A child switch is a member too, under the number of one of its ranks, which belongs to another node.
      if (!stuck[node] && known_[node].members.test(rank)) set.insert(rank);
    }
  }
  return set;
}

std::vector<SilentPath> SilentPaths::note(const Tree& tree, const UseInTree& found, int rank, SlotUseName use,
                                          Time now) {
  std::vector<SilentPath> news;
  const std::vector<size_t> held_up = found.held_up();
  for (size_t node = 1; node < tree.nodes.size(); ++node) {
    if (std::find(held_up.begin(), held_up.end(), node) == held_up.end()) {
      suspicions_.erase({node, rank});
      const auto silence = silent_.find(node);
      if (silence != silent_.end() && found.passed_on(node)) silence->second.over = true;
      continue;
    }
    const auto [suspicion, fresh] = suspicions_.try_emplace({node, rank}, Suspicion{use, now});
    if (!fresh && !(suspicion->second.use == use)) suspicion->second = {use, now};
    if (now - suspicion->second.since < kApart) continue;
    if (silent_.count(node) == 0) news.push_back(path_of(tree, node, use));
    silent_[node] = {use, now, false};
  }
  return news;
}

std::vector<SilentPath> SilentPaths::now_silent(const Tree& tree, Time now) const {
  std::vector<SilentPath> paths;
  for (const auto& [node, silence] : silent_) {
    if (!silence.over && now - silence.confirmed < kLately) paths.push_back(path_of(tree, node, silence.use));
  }
  return paths;
}

std::string describe(const SilentPath& path, const Topology& topology, int job) {
  const SwitchSpec& child = topology.switches[static_cast<size_t>(path.from)];
  const SwitchSpec& parent = topology.switches[static_cast<size_t>(path.to)];
  return "switch \"" + child.name + "\" has aggregated slot " + std::to_string(path.use.slot) + " seq " +
         std::to_string(path.use.seq) + " of job " + std::to_string(job) + ", and its parent \"" + parent.name +
         "\" has nothing of it: check the path from " + to_string(child.address) + " to " + to_string(parent.address) +
         " (UDP port, MTU, MAC)";
}

}  // namespace switchml::controller
