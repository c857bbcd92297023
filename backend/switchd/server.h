// A software switch on UDP and TCP: threads that receive bursts, process them and send the answers. Used by the
// standalone switchml-switchd and, embedded, by the hosts of a job that has no other switch.
//
// One thread serves what comes over UDP, one what comes over TCP, to the same port, and one what comes by RDMA. They
// take turns at the one switch, burst by burst (locked_switch.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/port_wish.h"
#include "base/status.h"
#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

struct ServerOptions {
  Endpoint listen;  // port 0 takes a free one
  softswitch::SwitchOptions softswitch;
  size_t receive_buffer_bytes = 32 << 20;
  /// Whether members may come by RDMA, where a card can be used; by which one.
  enum class Card { kNone, kIfThereIsOne, kMust } card = Card::kNone;
  PortWish card_port;
  /// Where requests of workers go instead of to the switch's own rules: a controller's agent, and no TCP. Borrowed,
  /// outlives the server; called from its threads with the switch locked, so it must only take a copy.
  softswitch::ControlTap* control = nullptr;
};

class SwitchServer {
 public:
  /// Opens the sockets and starts the threads. An error names the address, or that there is no thread.
  static Result<std::unique_ptr<SwitchServer>> start(const ServerOptions& options);
  /// Stops the threads and joins them.
  virtual ~SwitchServer() = default;
  /// The address it is bound to, with the real port.
  virtual Endpoint local() const = 0;
  /// Of all threads together, now. Thread-safe.
  virtual SwitchCounters counters() const = 0;
  /// Bytes of slots of all sessions and of receive buffers, now. Thread-safe.
  virtual size_t memory_bytes() const = 0;
  /// What it grants at most, as it was started: the receive buffer that the kernel gave included.
  virtual const softswitch::SwitchOptions& limits() const = 0;

  /// A switch by_invitation grants an open with this client key from now on. Thread-safe.
  virtual void invite(uint64_t client_key) = 0;

  // ---- under a controller. Thread-safe; errors are those of softswitch::SoftSwitch ----
  virtual Status install(const softswitch::InstalledSession& session) = 0;
  virtual Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) = 0;
  virtual void remove(uint8_t job, uint32_t epoch) = 0;
  virtual void remove_all() = 0;
  virtual Result<WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) = 0;
  /// Sends a frame from the port it listens on, soon. `to` as the ControlTap got it, so that it leaves from the address
  /// at which the request arrived. Frames beyond 1024 that wait are dropped: requests are repeated.
  virtual void send(std::vector<uint8_t> frame, const Endpoint& to) = 0;
};

}  // namespace switchml
