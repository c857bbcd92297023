#include "switchd/server.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <mutex>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "switchd/batching_sink.h"
#include "switchd/locked_switch.h"
#include "switchd/meetings.h"
#include "transport/guarded_listener.h"
#include "transport/rdma/rdma.h"
#include "transport/tcp.h"
#include "transport/udp.h"
#include "transport/udp_local.h"

namespace switchml {

namespace {

constexpr Duration kSweepInterval = seconds(1);
constexpr size_t kMostWaiting = 1024;
// Datagrams that one call takes from the kernel. Each may be many frames, coalesced.
constexpr size_t kDatagrams = 32;
// Frames that are processed before anything is sent. The more there are, the longer are the runs that go to one worker
// in one piece.
constexpr size_t kFrames = 512;
// The same of what arrives over TCP, in larger frames.
constexpr size_t kTcpFrames = 64;
constexpr size_t kCardFrames = 64;
// What all of them together may leave unread, as much as slots take by default.
constexpr size_t kAllQueuesBytes = 256 << 20;
// Ports that are tried before one is free for UDP and for TCP.
constexpr int kPorts = 16;

uint64_t system_random() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

/// Sockets of one port.
struct Links {
  std::unique_ptr<Transport> udp;
  std::unique_ptr<Transport> tcp;   // or null
  std::unique_ptr<Transport> card;  // or null
};

class ThreadedServer : public SwitchServer {
 public:
  ThreadedServer(Links links, const softswitch::SwitchOptions& options, softswitch::ControlTap* control)
      : limits_(options), switch_(options) {
    if (control != nullptr) {
      switch_.exclusively([control](softswitch::SoftSwitch& s) { s.hand_requests_to(control); });
    }
    workers_.push_back(std::make_unique<Worker>(std::move(links.udp), kFrames, BatchingSink::kHeldBytes));
    if (links.tcp) workers_.push_back(std::make_unique<Worker>(std::move(links.tcp), kTcpFrames, SIZE_MAX));
    if (links.card) {
      workers_.push_back(std::make_unique<Worker>(std::move(links.card), kCardFrames, 0));
      meeting_ = workers_.back().get();
      meetings_ = std::make_unique<Meetings>(*meeting_->transport);
      switch_.exclusively([this](softswitch::SoftSwitch& s) { s.answer_meets_by(meetings_.get()); });
    }
    try {
      for (auto& worker : workers_)
        worker->thread = make_thread("a switch", [this, &worker = *worker] { run(worker); });
    } catch (const NoThread&) {
      stop();
      throw;
    }
  }

  ~ThreadedServer() override { stop(); }

  Endpoint local() const override { return workers_.front()->transport->local(); }
  SwitchCounters counters() const override { return switch_.counters(); }
  const softswitch::SwitchOptions& limits() const override { return limits_; }
  size_t memory_bytes() const override {
    size_t total = switch_.slot_memory_in_use();
    for (const auto& worker : workers_) total += worker->transport->limits().held_bytes;
    return total;
  }

  void invite(uint64_t client_key) override {
    switch_.exclusively([client_key](softswitch::SoftSwitch& s) { s.invite(client_key); });
  }
  Status install(const softswitch::InstalledSession& session) override {
    return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.install(session, monotonic_now()); });
  }
  Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) override {
    return switch_.exclusively(
        [&](softswitch::SoftSwitch& s) { return s.set_member(job, epoch, worker, shard, endpoint); });
  }
  void remove(uint8_t job, uint32_t epoch) override {
    switch_.exclusively([&](softswitch::SoftSwitch& s) { s.remove(job, epoch); });
  }
  void remove_all() override {
    switch_.exclusively([](softswitch::SoftSwitch& s) { s.remove_all(); });
  }
  Result<WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) override {
    return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.contributed(job, epoch, slot, seq); });
  }
  void send(std::vector<uint8_t> frame, const Endpoint& to) override {
    {
      const std::lock_guard<std::mutex> lock(outbox_mutex_);
      if (outbox_.size() >= kMostWaiting) return;
      outbox_.push_back({std::move(frame), to});
      mail_.store(true, std::memory_order_release);
    }
    workers_.front()->transport->wake();
  }

 private:
  /// What one thread has for itself.
  struct Worker {
    Worker(std::unique_ptr<Transport> link, size_t frames_of_burst, size_t held_bytes)
        : transport(std::move(link)), sink(*transport, held_bytes), frames(frames_of_burst) {}
    std::unique_ptr<Transport> transport;
    BatchingSink sink;
    std::vector<RxFrame> frames;
    std::thread thread;
  };

  struct Outgoing {
    std::vector<uint8_t> frame;
    Endpoint to;
  };

  void stop() {
    stop_.store(true, std::memory_order_release);
    for (auto& worker : workers_) worker->transport->wake();
    for (auto& worker : workers_) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }

  void send_mail(Worker& worker) {
    if (!mail_.load(std::memory_order_acquire)) return;
    std::vector<Outgoing> outgoing;
    {
      const std::lock_guard<std::mutex> lock(outbox_mutex_);
      outgoing.swap(outbox_);
      mail_.store(false, std::memory_order_release);
    }
    for (const Outgoing& mail : outgoing) worker.sink.unicast(mail.frame.data(), mail.frame.size(), mail.to);
    worker.sink.flush();
  }

  void run(Worker& worker) {
    pthread_setname_np(pthread_self(), "switchml-switch");
    std::fesetenv(FE_DFL_ENV);                              // whatever the program that hosts this thread has set
    const bool sweeps = &worker == workers_.front().get();  // and sends what others hand in
    Time next_sweep = monotonic_now() + kSweepInterval;
    while (!stop_.load(std::memory_order_acquire)) {
      if (sweeps) send_mail(worker);
      if (&worker == meeting_) answer_meets();
      const bool busy = burst(worker);
      const Time now = monotonic_now();
      if (now >= next_sweep) {
        if (sweeps) {
          switch_.exclusively([now](softswitch::SoftSwitch& s) { s.sweep(now); });
        }
        if (&worker == meeting_) forget_gone();
        report_errors(worker);
        next_sweep = now + kSweepInterval;
      }
      if (!busy) worker.transport->wait(next_sweep - now);
    }
  }

  void answer_meets() {
    const Time now = monotonic_now();
    const auto join = [&](const wire::Join& asked, const Endpoint& from) {
      return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.join(asked, from, now); });
    };
    meetings_->answer(join, [this](std::vector<uint8_t> reply, const Endpoint& to) { send(std::move(reply), to); });
  }

  // [MEET-5]
  void forget_gone() {
    meetings_->forget_gone([this](uint8_t job, uint32_t epoch) {
      return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.serves(job, epoch); });
    });
  }

  // Takes what has arrived and sends the answers. False: nothing had arrived.
  bool burst(Worker& worker) {
    const size_t count = worker.transport->receive(worker.frames.data(), worker.frames.size());
    if (count == 0) return false;
    switch_.process(worker.frames.data(), count, monotonic_now(), worker.sink);
    worker.transport->release();
    worker.sink.flush();
    return true;
  }

  void report_errors(Worker& worker) {
    const std::string error = worker.transport->take_error();
    if (!error.empty()) SWITCHML_LOG(kDebug) << "switch " << to_string(local()) << ": " << error;
  }

  const softswitch::SwitchOptions limits_;
  std::mutex outbox_mutex_;
  std::vector<Outgoing> outbox_;
  std::atomic<bool> mail_{false};
  LockedSwitch switch_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Meetings> meetings_;            // or null
  Worker* meeting_ = nullptr;                     // who answers them
  std::vector<std::unique_ptr<Worker>> workers_;  // complete before the first thread starts
};

Result<std::unique_ptr<Transport>> open_udp(const ServerOptions& options) {
  UdpOptions udp;
  udp.bind = options.listen;
  udp.receive_buffer_bytes = options.receive_buffer_bytes;
  udp.receive_frames = kDatagrams;
  udp.local_addresses = std::make_shared<LocalAddresses>();
  return make_udp_transport(udp);
}

Result<std::unique_ptr<Transport>> open_tcp(const Endpoint& listen) {
  TcpOptions tcp;
  tcp.listen = listen;
  const ConnectionLimits limits = connection_limits(1);
  tcp.max_connections = limits.in_all;
  tcp.max_from_address = limits.from_address;
  tcp.queue_bytes = kStreamQueueBytes;
  tcp.all_queues_bytes = kAllQueuesBytes;
  return make_tcp_transport(tcp);
}

// By the address that the switch is bound to, or the one that this host announces.
Result<std::unique_ptr<Transport>> open_card(const ServerOptions& options, const Endpoint& bound) {
  RdmaOptions card;
  card.wish = options.card_port;
  card.local = bound;
  if (is_any(bound)) {
    const auto announced = announced_address("");
    if (!announced.ok()) return announced.status();
    card.local = with_port(announced.value(), port_of(bound));
  }
  return make_rdma_transport(card);
}

Status add_card(const ServerOptions& options, Links* links) {
  if (options.card == ServerOptions::Card::kNone || options.control != nullptr) return {};
  const Endpoint bound = links->udp->local();
  auto card = open_card(options, bound);
  if (card.ok()) {
    links->card = std::move(card.value());
    return {};
  }
  if (options.card == ServerOptions::Card::kMust) return card.status();
  const std::string what = "switch " + to_string(bound) + " serves no RDMA: " + card.status().message();
  if (card.status().code() == Code::kUnsupported) {  // as on most hosts
    SWITCHML_LOG(kInfo) << what;
  } else {
    SWITCHML_LOG(kWarning) << what;
  }
  return {};
}

Result<Links> open_links(const ServerOptions& options) {
  for (int attempt = 1;; ++attempt) {
    auto udp = open_udp(options);
    if (!udp.ok()) return udp.status();
    Links links;
    links.udp = std::move(udp.value());
    if (options.control != nullptr) return links;  // whose sessions are of integers
    auto tcp = open_tcp(links.udp->local());
    if (tcp.ok()) {
      links.tcp = std::move(tcp.value());
      return links;
    }
    if (port_of(options.listen) == 0 && attempt < kPorts) continue;
    SWITCHML_LOG(kWarning) << "switch " << to_string(links.udp->local())
                           << " serves UDP only: " << tcp.status().message();
    return links;
  }
}

}  // namespace

Result<std::unique_ptr<SwitchServer>> SwitchServer::start(const ServerOptions& options) {
  auto links = open_links(options);
  if (!links.ok()) return links.status();
  if (Status status = add_card(options, &links.value()); !status.ok()) return status;
  softswitch::SwitchOptions switch_options = options.softswitch;
  switch_options.has_card = links->card != nullptr;
  const size_t granted = links->udp->limits().receive_buffer_bytes;
  if (switch_options.receive_buffer_bytes == 0) switch_options.receive_buffer_bytes = granted;
  // A host.
  switch_options.client_of = [](const Endpoint& from) { return with_carrier(with_port(from, 0), Carrier::kPackets); };
  switch_options.suits_tcp = links->tcp != nullptr;
  if (switch_options.seed == 0) switch_options.seed = system_random();
  try {
    return std::unique_ptr<SwitchServer>(new ThreadedServer(std::move(links.value()), switch_options, options.control));
  } catch (const NoThread& none) {
    return none.status();
  }
}

}  // namespace switchml
