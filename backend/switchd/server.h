// A software switch on UDP: threads that receive bursts, process them and send the answers. Used by the standalone
// switchml-switchd and, embedded, by rank 0 of a job that has no other switch.
//
// Threads share one port and one switch: the kernel gives each sender to one of their sockets. The switch itself is
// behind a lock; what runs in parallel is what costs most, the system calls and copies of receiving and sending.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

struct ServerOptions {
  Endpoint listen;  // port 0 takes a free one
  int threads = 1;  // 1 to 64
  softswitch::SwitchOptions softswitch;
  size_t receive_buffer_bytes = 32 << 20;
};

class SwitchServer {
 public:
  /// Opens the sockets and starts the threads. An error names the address.
  static Result<std::unique_ptr<SwitchServer>> start(const ServerOptions& options);
  /// Stops the threads and joins them.
  virtual ~SwitchServer() = default;
  /// The address it is bound to, with the real port.
  virtual Endpoint local() const = 0;
  virtual const SwitchCounters& counters() const = 0;
  /// Bytes of slots of all sessions and of receive buffers, now. Thread-safe.
  virtual size_t memory_bytes() const = 0;
};

}  // namespace switchml
