// What takes a lost switch's place: contributions are added up by all ranks among themselves. The words are the same
// integers that the switch would have added, so the results have the same bits.
//
// It works in rounds, each a few collective reductions. Every rank enters a round when it has contributed to something
// that is not answered. First the ranks find by a maximum how often each slot has been used by all of them; then the
// words of the slots that everybody has contributed to are reduced together. A rank that has nothing under way keeps
// the others waiting, as it would at a switch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "session/rank_reducer.h"
#include "transport/transport.h"

namespace switchml {

/// Has a thread of its own. Thread-safe.
class Detour {
 public:
  struct Callbacks {
    /// Told once, from the detour's thread, when the reducer fails.
    std::function<void(const Status&)> on_failure;
    /// This rank waits for others in round `number`: to be told to the others' heard(). May be null.
    std::function<void(uint64_t number)> tell_round;
  };
  /// All ranks make theirs at the same point of the streams (Engine::suspend).
  Detour(std::unique_ptr<RankReducer> reducer, const SessionParameters& session, Callbacks callbacks);
  ~Detour();
  Detour(const Detour&) = delete;
  Detour& operator=(const Detour&) = delete;

  /// Another rank waits in this round. Who does not is missing: an engine that asks whom it waits for is answered so.
  void heard(int rank, uint64_t number);
  /// A rank has left the group.
  void heard_leave(int rank);

  /// One for each shard, once. They may live longer than the detour, and are silent then.
  std::vector<std::unique_ptr<Transport>> transports();

 private:
  class Rounds;
  class Link;
  const std::shared_ptr<Rounds> rounds_;
};

}  // namespace switchml
