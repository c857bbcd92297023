// What can be moved from one switch to another in the middle of its streams: the part of an engine that one session has
// (docs/protocol.md, Moving to another switch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "transport/transport.h"

namespace switchml {

/// One thread at a time, and none of those that the streams run in: it waits for them.
class Relocatable {
 public:
  virtual ~Relocatable() = default;

  /// Sends and receives nothing any more, on return. Collectives can still be submitted, and time out. Says for each
  /// slot of the session the sequence number of the last use with an accepted result; 0: none.
  virtual std::vector<uint32_t> suspend() = 0;
  /// What it waits for while it is suspended, for the message of a collective that times out meanwhile.
  virtual void set_waiting_for(const std::string& what) = 0;
  /// The frame with that result (EngineOptions::keep_results), or nothing.
  virtual std::vector<uint8_t> last_result(int slot) = 0;
  /// Takes results that other ranks have kept, as if they came from the switch: each is judged by its slot and witness.
  virtual void supply(std::vector<std::vector<uint8_t>> frames) = 0;
  /// Goes on. All open chunks are sent again, under the route's job and epoch; sequence numbers go on. `transports`:
  /// one per shard, or none for those that it was started with. They are kept until the next move.
  virtual void resume(const Route& route, std::vector<std::unique_ptr<Transport>> transports) = 0;
};

}  // namespace switchml
