// A software switch on a transport: one thread that receives bursts, processes them and sends the answers. Used by the
// standalone switchml-switchd and, embedded, by rank 0 of a job that has no other switch.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

struct ServerOptions {
  Endpoint listen;  // port 0 takes a free one
  softswitch::SwitchOptions softswitch;
  size_t receive_buffer_bytes = 32 << 20;
};

class SwitchServer {
 public:
  /// Opens the socket and starts the thread. An error names the address.
  static Result<std::unique_ptr<SwitchServer>> start(const ServerOptions& options);
  /// Stops the thread and joins it.
  virtual ~SwitchServer() = default;
  /// The address it is bound to, with the real port.
  virtual Endpoint local() const = 0;
  virtual const SwitchCounters& counters() const = 0;
  /// Bytes of slots of all sessions and of receive buffers, now. Thread-safe.
  virtual size_t memory_bytes() const = 0;
};

}  // namespace switchml
