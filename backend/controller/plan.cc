#include "controller/plan.h"

#include <algorithm>
#include <utility>

#include "base/fnv.h"
#include "base/limits.h"

namespace switchml::controller {

namespace {

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

std::optional<Refusal> check_share(const Topology& topology, const Plan& plan, size_t number) {
  const PlannedShare& share = plan.shares[number];
  const std::string self = "share " + std::to_string(number);
  const auto refuse = [&](const std::string& why) { return Refusal{Why::kInvalid, self + ": " + why}; };
  if (share.weight < 1 || share.weight > kMaxWeight) {
    return refuse("weight " + std::to_string(share.weight) + ": allowed are 1 to " + std::to_string(kMaxWeight));
  }
  if (share.switches.empty()) return refuse("it has no switch");
  std::vector<bool> has_member(share.switches.size()), taken(topology.switches.size());
  for (size_t i = 0; i < share.switches.size(); ++i) {
    const PlannedShare::Switch& node = share.switches[i];
    const std::string name = "switch " + quoted(topology.switches[static_cast<size_t>(node.at)].name);
    if (taken[static_cast<size_t>(node.at)]) return refuse(name + " is in it twice");
    taken[static_cast<size_t>(node.at)] = true;
    if ((node.parent == kNone) != (i == 0)) return refuse(name + ": the first switch alone has no parent");
    if (node.parent >= static_cast<int>(i)) return refuse(name + " comes before its parent");
    if (node.parent != kNone) has_member[static_cast<size_t>(node.parent)] = true;
  }
  for (const int at : share.at) has_member[static_cast<size_t>(at)] = true;
  for (size_t i = 0; i < has_member.size(); ++i) {
    if (has_member[i]) continue;
    return refuse("switch " + quoted(topology.switches[static_cast<size_t>(share.switches[i].at)].name) +
                  " has neither a worker nor a switch beneath it");
  }
  return std::nullopt;
}

template <typename Number>
void mix(uint64_t* hash, Number number) {
  *hash = fnv1a(&number, sizeof number, *hash);
}

}  // namespace

uint64_t PlannedShare::tree_id() const {
  uint64_t hash = kFnv1aStart;
  for (const Switch& node : switches) {
    mix(&hash, node.at);
    mix(&hash, node.parent);
    mix(&hash, node.up.port);
    mix(&hash, node.up.port_at_parent);
    mix(&hash, node.up.mtu);
  }
  mix(&hash, kNone);
  for (const int place : at) mix(&hash, place);
  return hash == 0 ? 1 : hash;
}

void keep_order(const Plan& before, Plan* next) {
  if (before.shares.size() != next->shares.size()) return;
  for (size_t i = 0; i < before.shares.size(); ++i) {
    if (next->shares[i].same_tree(before.shares[i])) continue;
    for (size_t j = 0; j < next->shares.size(); ++j) {
      if (!next->shares[j].same_tree(before.shares[i]) || next->shares[j].same_tree(before.shares[j])) continue;
      std::swap(next->shares[i], next->shares[j]);
      break;
    }
  }
}

std::optional<Refusal> check_plan(const Topology& topology, const Plan& plan) {
  if (plan.workers.empty()) return Refusal{Why::kInvalid, "a plan for no workers: name some of the topology"};
  const auto twice = std::adjacent_find(plan.workers.begin(), plan.workers.end());
  if (twice != plan.workers.end()) {
    return Refusal{Why::kInvalid,
                   "worker " + quoted(topology.workers[static_cast<size_t>(*twice)].name) + " is named twice"};
  }
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    if (auto refusal = check_share(topology, plan, i)) return refusal;
  }
  return std::nullopt;
}

std::vector<int> workers_of(const std::vector<Attachment>& ranks) {
  std::vector<int> workers;
  for (const Attachment& rank : ranks) {
    if (rank.worker != kNone) workers.push_back(rank.worker);
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

std::vector<Attachment> attachments_in(const Plan& plan, size_t share, const std::vector<Attachment>& ranks) {
  const PlannedShare& planned = plan.shares[share];
  std::vector<Attachment> places = ranks;
  for (Attachment& place : places) {
    const auto found = std::lower_bound(plan.workers.begin(), plan.workers.end(), place.worker);
    const auto worker = static_cast<size_t>(found - plan.workers.begin());
    place.at = planned.switches[static_cast<size_t>(planned.at[worker])].at;
  }
  return places;
}

Tree tree_of(const PlannedShare& share, const std::vector<Attachment>& places) {
  Tree tree;
  for (const PlannedShare::Switch& planned : share.switches) {
    TreeNode node;
    node.at = planned.at;
    node.parent = planned.parent;
    node.up = planned.up;
    if (node.parent != kNone) {
      tree.nodes[static_cast<size_t>(node.parent)].children.push_back(static_cast<int>(tree.nodes.size()));
    }
    tree.nodes.push_back(node);
  }
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const TreeNode* at = tree.at_switch(places[rank].at);
    int node = static_cast<int>(at - tree.nodes.data());
    tree.node_of_rank.push_back(node);
    tree.nodes[static_cast<size_t>(node)].ranks.push_back(static_cast<int>(rank));
    for (; tree.nodes[static_cast<size_t>(node)].parent != kNone; node = tree.nodes[static_cast<size_t>(node)].parent) {
      TreeNode& entry = tree.nodes[static_cast<size_t>(node)];
      if (entry.number == kNone) entry.number = static_cast<int>(rank);  // [TREE-2]
    }
  }
  return tree;
}

}  // namespace switchml::controller
