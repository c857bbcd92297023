// A planner's decision for the workers of one job: the trees of switches for their tensors, and each tree's share of a
// tensor (docs/planning.md). Values, and the trees that follow from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/refusal.h"
#include "controller/tree.h"

namespace switchml::controller {

/// One tree, and its part of every tensor.
struct PlannedShare {
  struct Switch {
    int at = 0;          // Index into Topology::switches.
    int parent = kNone;  // Index into `switches`; kNone: the root.
    UplinkSpec up;
    bool operator==(const Switch& other) const { return at == other.at && parent == other.parent && up == other.up; }
  };
  uint32_t weight = 1;           // 1 to kMaxWeight: its part is weight / sum of all shares' weights.
  std::vector<Switch> switches;  // The root first, parents before children.
  std::vector<int> at;           // Worker of the plan -> index into `switches`.

  bool same_tree(const PlannedShare& other) const { return switches == other.switches && at == other.at; }
  /// A hash of the tree alone; the same in each run, and not 0.
  uint64_t tree_id() const;
};

struct Plan {
  std::vector<int> workers;  // Indices into Topology::workers, ascending.
  std::vector<PlannedShare> shares;
};

/// The first mistake in a plan; none: every share is a tree over switches of the topology, and each switch in it is
/// some worker's or some switch's parent.
std::optional<Refusal> check_plan(const Topology& topology, const Plan& plan);

/// If both have as many shares: gives shares of `next` with a tree of `before` the indices that their trees had, so
/// that groups that have them need not move.
void keep_order(const Plan& before, Plan* next);

/// The workers of these ranks, ascending, each once; none where the topology names no workers.
std::vector<int> workers_of(const std::vector<Attachment>& ranks);

/// The ranks' switches in a share of a plan for their workers, and its tree.
std::vector<Attachment> attachments_in(const Plan& plan, size_t share, const std::vector<Attachment>& ranks);
Tree tree_of(const PlannedShare& share, const std::vector<Attachment>& places);

}  // namespace switchml::controller
