// All ranks stop in the middle of their streams, find out how far each has come, and hand each other the results that
// some have and others lack. After it every rank goes on from the same point. No collective is repeated or lost.
//
//   each rank, in the store                     what the others do with it
//   move/N/state: last accepted use per slot    all read all: which ranks are ahead, by slot
//   move/N/kept: the results that it alone has  a rank that lacks one judges and takes it
//   move/N/ready: ok, or what went wrong        no rank goes on before all have what they lacked
#pragma once

#include <string>

#include "engine/relocatable.h"
#include "slots/resync_plan.h"
#include "store/store_channel.h"

namespace switchml {

/// One thread.
class StateTransfer {
 public:
  /// The `number`-th of the group, from 0; borrows the engine (EngineOptions::keep_results) and the channel.
  StateTransfer(Relocatable& engine, StoreChannel& channel, const GroupInfo& group, int number);
  /// Suspends the engine. Ok: all ranks are suspended and level.
  Status run();

 private:
  Status exchange_results();
  Result<ResyncPlan> plan();
  Status take_over(const ResyncPlan& plan);
  std::string topic(const std::string& what) const { return "move/" + std::to_string(number_) + "/" + what; }

  Relocatable& engine_;
  StoreChannel& channel_;
  const GroupInfo group_;
  const int number_;
};

}  // namespace switchml
