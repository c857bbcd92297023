// The engine whose collectives go through a switch, or several. Shards are threads; each has its own transport, slots,
// timers and counters, and takes its share of every collective.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/relocatable.h"
#include "transport/transport.h"

namespace switchml {

class SwitchEngine : public Engine, public Relocatable {
 public:
  /// One transport per session and shard, session after session, each already joined (client/control_client.h). Those
  /// of one shard number must be usable from one thread, which waits on the first of them for all. Starts the threads,
  /// or throws NoThread. Precondition of a move: this engine has all shards of a single session.
  static std::unique_ptr<SwitchEngine> start(const EngineOptions& options,
                                             std::vector<std::unique_ptr<Transport>> transports);
};

}  // namespace switchml
