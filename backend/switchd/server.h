// A software switch on UDP and TCP: threads that receive bursts, process them and send the answers. It runs in the
// standalone switchml-switchd and, embedded, in the hosts of a job without another switch.
//
// One thread serves UDP, one TCP at the same port, and one RDMA. They take turns at the one switch, burst by burst
// (locked_switch.h).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/port_wish.h"
#include "base/status.h"
#include "seal/seal_key.h"
#include "softswitch/switch.h"
#include "switchd/locked_switch.h"
#include "transport/side_work.h"
#include "transport/transport.h"

namespace switchml {

struct ServerOptions {
  Endpoint listen;  // Port 0 takes a free one.
  softswitch::SwitchOptions softswitch;
  size_t receive_buffer_bytes = 32 << 20;
  /// Whether members may use RDMA, and the card for it.
  enum class CardUse { kNone, kIfThereIsOne, kMust } card = CardUse::kNone;
  PortWish card_port;
  /// All links are sealed with it: frames of others are dropped. Nothing: none is.
  std::optional<SealKey> seal;
  /// A controller's agent, which gets workers' requests; without it the switch follows rules of its own. Excludes TCP.
  /// Borrowed, outlives the server; called from its threads with the switch locked, so it must only take a copy.
  softswitch::ControlTap* control = nullptr;
};

class Meetings;
struct SealCounters;
struct SwitchLinks;

class SwitchServer {
 public:
  /// Opens the sockets and starts the threads. An error names the address, or that there is no thread.
  static Result<std::unique_ptr<SwitchServer>> start(const ServerOptions& options);
  /// Stops the threads and joins them.
  ~SwitchServer();
  SwitchServer(const SwitchServer&) = delete;
  SwitchServer& operator=(const SwitchServer&) = delete;

  /// The bound address, with the real port.
  Endpoint local() const;
  /// The sums over all threads. Thread-safe.
  SwitchCounters counters() const;
  /// Memory of all sessions' slots and of receive buffers. Thread-safe.
  size_t memory_bytes() const;
  /// The options it was started with, and the receive buffer that the kernel gave.
  const softswitch::SwitchOptions& limits() const { return limits_; }

  /// What the thread of this carrier does; null: there is none, or it cannot be done by others.
  SideWork* side_work(Carrier carrier);

  /// For a member in this process that has joined over `link`: a transport that reaches this switch without a socket
  /// (transport/direct_link.h). `link` itself, where the member is not known, or uses a card. Thread-safe.
  std::unique_ptr<Transport> link_directly(const wire::Membership& member, int shard, std::unique_ptr<Transport> link);

  /// Lets a switch by_invitation grant an open with this client key. Thread-safe.
  void invite(uint64_t client_key);

  // ---- under a controller. Thread-safe; errors are those of softswitch::SoftSwitch ----
  Status install(const softswitch::InstalledSession& session);
  Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint);
  void remove(uint8_t job, uint32_t epoch);
  void remove_all();
  Result<WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq);
  /// Queues a frame to be sent from the listening port. `to` is the ControlTap's: the frame leaves from the address at
  /// which the request arrived. If 1024 wait, further frames are dropped: requests are repeated.
  void send(std::vector<uint8_t> frame, const Endpoint& to);

 private:
  class Worker;
  struct OutboxFrame {
    std::vector<uint8_t> frame;
    Endpoint to;
  };

  SwitchServer(SwitchLinks links, const softswitch::SwitchOptions& options, softswitch::ControlTap* control);
  void stop();
  void send_mail(Worker& worker);
  void run(Worker& worker);
  void answer_meets();
  void forget_gone();
  bool serve(Worker& worker);
  Worker* worker_for(Carrier carrier) const;
  void report_errors(Worker& worker);

  const softswitch::SwitchOptions limits_;
  std::mutex outbox_mutex_;
  std::vector<OutboxFrame> outbox_;
  std::atomic<bool> mail_{false};
  LockedSwitch switch_;
  const std::vector<std::shared_ptr<SealCounters>> seals_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Meetings> meetings_;            // Or null.
  Worker* meeting_ = nullptr;                     // The card's worker, or null.
  std::vector<std::unique_ptr<Worker>> workers_;  // Complete before the first thread starts.
};

}  // namespace switchml
