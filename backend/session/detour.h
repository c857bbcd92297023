// What takes a lost switch's place: contributions are added up by all ranks among themselves. The words are the same
// integers that the switch would have added, so the results have the same bits.
//
// It works in rounds, each a few collective reductions. Every rank enters a round when it has contributed to something
// that is not answered. First the ranks find by a maximum how often each slot has been used by all of them; then the
// words of the slots that everybody has contributed to are reduced together. A rank that has nothing under way keeps
// the others waiting, as it would at a switch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "session/rank_reducer.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {

/// What the ranks of a group have said of themselves. Thread-safe.
class Roster {
 public:
  explicit Roster(int ranks) : rounds_(static_cast<size_t>(ranks)), left_(static_cast<size_t>(ranks)) {}
  /// A rank waits in this round of the detour; ranks that do not exist are ignored, here and below.
  void waits(int rank, uint64_t round);
  void leaves(int rank);
  bool has_left(int rank) const;
  /// A switch's answer to a probe: who waits in this round has contributed, who has left is joined no more.
  wire::ProbeReply answer(uint64_t round) const;

 private:
  bool known(int rank) const { return rank >= 0 && static_cast<size_t>(rank) < left_.size(); }

  mutable std::mutex mutex_;
  std::vector<uint64_t> rounds_;  // 0: none yet
  std::vector<bool> left_;
};

/// Has a thread of its own. Thread-safe.
class Detour {
 public:
  struct Callbacks {
    /// Told once, from the detour's thread, when the reducer fails.
    std::function<void(const Status&)> on_failure;
    /// This rank waits for others in round `number`: to be told to the others' rosters. May be null.
    std::function<void(uint64_t number)> tell_round;
  };
  /// All ranks make theirs at the same point of the streams (Engine::suspend). An engine that asks whom it waits for is
  /// answered by the roster. Rounds are counted on from `rounds_before`: rosters outlive detours.
  Detour(std::unique_ptr<RankReducer> reducer, const SessionParameters& session, std::shared_ptr<Roster> roster,
         Callbacks callbacks, uint64_t rounds_before = 0);
  ~Detour();
  Detour(const Detour&) = delete;
  Detour& operator=(const Detour&) = delete;

  /// One for each shard, once. They may live longer than the detour, and are silent then.
  std::vector<std::unique_ptr<Transport>> transports();

 private:
  class Rounds;
  class Link;
  const std::shared_ptr<Rounds> rounds_;
};

}  // namespace switchml
