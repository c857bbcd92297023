// The engine for collectives through one switch or several. Shards are threads; each has its own transport, slots,
// timers and counters, and takes its share of every collective.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/relocatable.h"
#include "transport/transport.h"

namespace switchml {

class SwitchEngine : public Engine {
 public:
  /// One transport per session and shard, session after session, each already joined (client/control_client.h). Those
  /// of one shard number must be usable from one thread, which waits on the first of them for all; with
  /// EngineOptions::own_threads each has one. Starts the threads, or throws NoThread.
  static std::unique_ptr<SwitchEngine> start(const EngineOptions& options,
                                             std::vector<std::unique_ptr<Transport>> transports);

  /// What moves by itself: the shards of session `number`, as EngineOptions::on_switch_lost counts. Precondition of a
  /// move: this engine has all shards of the session, and no other one, or own_threads. Lives as long as the engine.
  virtual Relocatable& share(size_t number) = 0;

  /// Collectives that are submitted from now on wait for set_weights(). Says how many came before. Thread-safe.
  virtual uint64_t hold() = 0;
  /// When the first of those that are held must be complete; kNever: none is, or it need not. Thread-safe.
  virtual Time held_until() const = 0;
  /// What was held goes on, and what comes. Collective number `from`, counted from 0 since the start, is the first one
  /// that the sessions share by these weights, in their order, each 1 to kMaxWeight; none: by those that they have.
  /// Ranks choose one `from`, at least what hold() said on each. Ends the hold, if there is one. Thread-safe.
  virtual void set_weights(uint64_t from, const std::vector<uint32_t>& weights) = 0;
};

}  // namespace switchml
