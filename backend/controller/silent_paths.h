// Finds paths in a tree of switches that lose a use of a slot: a switch has aggregated it, and its parent has nothing
// of it, so that all ranks wait although none is late.
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

/// The switches' states of one use. `tree` is borrowed.
class UseInTree {
 public:
  explicit UseInTree(const Tree& tree) : tree_(tree), known_(tree.nodes.size()) {}

  /// Sets a node's answer. A node without one has nothing, and suspects no path below it.
  void answered(size_t node, const std::vector<uint32_t>& members);
  /// Ranks that their switch has heard, and that are not below a stuck aggregate.
  WorkerSet contributed() const;
  /// Nodes that have aggregated the use, with parents that answered that they have nothing of it.
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
  std::vector<Known> known_;  // Index: node.
};

/// A path of a session that loses packets.
struct SilentPath {
  int from = kNone;  // Both are indices into Topology::switches.
  int to = kNone;
  SlotUseName use;
};

/// The suspicions of one session. An aggregate may be under way, or lost once: a path is silent if one rank's probes of
/// the same use find it so twice, some time apart.
class SilentPaths {
 public:
  /// Takes the findings of a probe of `rank` at `now`. Returns paths that are silent for the first time.
  std::vector<SilentPath> note(const Tree& tree, const UseInTree& found, int rank, SlotUseName use, Time now);
  /// Paths found silent lately: probes end when the collective goes on.
  std::vector<SilentPath> now_silent(const Tree& tree, Time now) const;

 private:
  struct Suspicion {
    SlotUseName use;
    Time since{};
  };
  struct Silence {
    SlotUseName use;
    Time confirmed{};
    bool over = false;  // Kept, so that it is reported once.
  };
  std::map<std::pair<size_t, int>, Suspicion> suspicions_;  // Key: node, rank.
  std::map<size_t, Silence> silent_;                        // Key: node.
};

/// The sentence for people; names both switches and their addresses.
std::string describe(const SilentPath& path, const Topology& topology, int job);

}  // namespace switchml::controller
