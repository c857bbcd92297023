// Where a use of a slot gets stuck in a tree of switches: a switch that has aggregated it, and a parent that has
// nothing of it. Its ranks have done their part, and yet everybody waits for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/topology.h"
#include "controller/tree.h"
#include "slots/worker_set.h"

namespace switchml::controller {

struct SlotUseName {
  uint16_t slot = 0;
  uint32_t seq = 0;
  friend bool operator==(const SlotUseName& a, const SlotUseName& b) { return a.slot == b.slot && a.seq == b.seq; }
};

/// What the switches of a tree have of one use. `tree` is borrowed.
class UseInTree {
 public:
  explicit UseInTree(const Tree& tree) : tree_(tree), known_(tree.nodes.size()) {}

  /// A node's answer; one that gave none has nothing, and accuses nobody below it.
  void answered(size_t node, const std::vector<uint32_t>& members);
  /// Ranks whose contribution is at their switch and, where that one has aggregated the use, on the whole way up as far
  /// as it is aggregated.
  WorkerSet contributed() const;
  /// Nodes that have aggregated the use, and whose parent answered that it has nothing of it.
  std::vector<size_t> held_up() const;
  /// Whether a node has aggregated the use, and its parent has it. Precondition: the node is not the root.
  bool passed_on(size_t node) const;

 private:
  struct Known {
    bool answered = false;
    WorkerSet members;
  };
  bool aggregated(size_t node) const;
  bool held_up(size_t node) const;

  const Tree& tree_;
  std::vector<Known> known_;  // by node
};

/// A path of a session over which nothing comes.
struct SilentPath {
  int from = kNone;  // switches: indices into Topology::switches
  int to = kNone;
  SlotUseName use;
};

/// The suspicions of one session. An aggregate may simply be under way, or was lost and comes again: a path is silent
/// if one rank's probes of the same use find it so twice, some time apart.
class SilentPaths {
 public:
  /// What a probe of `rank`, asked at `now`, has found. Returns paths that are found silent for the first time.
  std::vector<SilentPath> note(const Tree& tree, const UseInTree& found, int rank, SlotUseName use, Time now);
  /// Those found so lately: nobody probes any more once things go on.
  std::vector<SilentPath> now_silent(const Tree& tree, Time now) const;

 private:
  struct Suspicion {
    SlotUseName use;
    Time since{};
  };
  struct Silence {
    SlotUseName use;
    Time confirmed{};
    bool over = false;  // kept, so that it is told once
  };
  std::map<std::pair<size_t, int>, Suspicion> suspicions_;  // by node and rank
  std::map<size_t, Silence> silent_;                        // by node
};

/// The sentence for people; names both switches and their addresses.
std::string describe(const SilentPath& path, const Topology& topology, int job);

}  // namespace switchml::controller
