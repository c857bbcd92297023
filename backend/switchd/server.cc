#include "switchd/server.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <condition_variable>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "switchd/batching_sink.h"
#include "switchd/meetings.h"
#include "transport/direct_link.h"
#include "transport/guarded_listener.h"
#include "transport/rdma/rdma.h"
#include "transport/sealed_link.h"
#include "transport/tcp.h"
#include "transport/udp.h"
#include "transport/udp_local.h"

namespace switchml {

/// Sockets of one port.
struct SwitchLinks {
  std::unique_ptr<Transport> udp;
  std::unique_ptr<Transport> tcp;                    // Or null.
  std::unique_ptr<Transport> card;                   // Or null.
  std::vector<std::shared_ptr<SealCounters>> seals;  // Of each link that is sealed.
};

namespace {

constexpr Duration kSweepInterval = seconds(1);
constexpr size_t kMostWaiting = 1024;
// Datagrams that one call takes from the kernel. Each may be many coalesced frames.
constexpr size_t kDatagrams = 32;
// Frames that are processed before any is sent. The more there are, the longer are the runs sent to one worker at once.
constexpr size_t kFrames = 512;
// The numbers for TCP and RDMA, which have larger frames.
constexpr size_t kTcpFrames = 64;
constexpr size_t kCardFrames = 64;
// Most unread bytes of all TCP connections together: the default memory of slots.
constexpr size_t kAllQueuesBytes = 256 << 20;
// Most ports tried for one that is free for UDP and for TCP.
constexpr int kPorts = 16;

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

// Opens the card with the address that the switch is bound to, or the one that this host announces.
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

Status add_card(const ServerOptions& options, SwitchLinks* links) {
  if (options.card == ServerOptions::CardUse::kNone || options.control != nullptr) return {};
  const Endpoint bound = links->udp->local();
  auto card = open_card(options, bound);
  if (card.ok()) {
    links->card = std::move(card.value());
    return {};
  }
  if (options.card == ServerOptions::CardUse::kMust) return card.status();
  const std::string what = "switch " + to_string(bound) + " serves no RDMA: " + card.status().message();
  if (card.status().code() == Code::kUnsupported) {  // Most hosts have no card.
    SWITCHML_LOG(kInfo) << what;
  } else {
    SWITCHML_LOG(kWarning) << what;
  }
  return {};
}

Result<SwitchLinks> open_links(const ServerOptions& options) {
  for (int attempt = 1;; ++attempt) {
    auto udp = open_udp(options);
    if (!udp.ok()) return udp.status();
    SwitchLinks links;
    links.udp = std::move(udp.value());
    if (options.control != nullptr) return links;  // A controller knows no TCP.
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

// [SEAL-15] Each link has a thread of its own, which counts.
void seal_links(const SealKey& key, SwitchLinks* links) {
  for (std::unique_ptr<Transport>* const link : {&links->udp, &links->tcp, &links->card}) {
    if (*link == nullptr) continue;
    SealOptions options;
    options.counters = links->seals.emplace_back(std::make_shared<SealCounters>());
    *link = seal_link(std::move(*link), key, SealEnd::kSwitch, std::move(options));
  }
}

}  // namespace

/// A link, and the thread that serves it: all the time, or where members of this host take it over, at intervals.
class SwitchServer::Worker final : public SideWork {
 public:
  Worker(SwitchServer& server_in, std::unique_ptr<Transport> link, size_t frames_of_burst, size_t held_bytes)
      : server(server_in),
        transport(std::make_unique<DirectLink>(std::move(link))),
        sink(*transport, held_bytes),
        frames(frames_of_burst) {}

  bool take() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_wanted_.exchange(true)) transport->wake();
    wanted_at_ = monotonic_now();
    const bool was_free = std::exchange(is_free_, false);
    taken_ = taken_ || was_free;
    return was_free;
  }
  bool step() override { return server.serve(*this); }
  int readable() const override { return transport->readable(); }
  void give_back() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ = false;
    is_free_ = true;
    wanted_at_ = monotonic_now();
    if (transport->is_sending()) is_wanted_ = false;
    if (!is_wanted_) changed_.notify_one();
  }
  void rouse() override {
    if (!is_wanted_.load()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    is_wanted_ = false;
    changed_.notify_one();
  }

  /// Returns when the thread has to serve the link, though it may be wanted.
  void rest() {
    if (!is_wanted_.load()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    is_free_ = !taken_;
    do {
      changed_.wait_for(lock, kRest, [this] { return !is_wanted_.load() && !taken_; });
    } while (taken_);
    is_free_ = false;
    if (monotonic_now() - wanted_at_ > kWanted) is_wanted_ = false;
  }
  bool is_wanted() const { return is_wanted_.load(); }
  /// Ends a wait or a rest, now or to come.
  void wake() {
    transport->wake();
    rouse();
  }

  SwitchServer& server;
  const std::unique_ptr<DirectLink> transport;
  BatchingSink sink;
  std::vector<RxFrame> frames;
  std::thread thread;

 private:
  static constexpr Duration kRest = milliseconds(1);
  static constexpr Duration kWanted = milliseconds(100);  // For so long after the last time.

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_wanted_{false};  // Others take it over, or will.
  bool is_free_ = false;                // The thread rests; guarded by mutex_, as what follows.
  bool taken_ = false;
  Time wanted_at_{};
};

SwitchServer::SwitchServer(SwitchLinks links, const softswitch::SwitchOptions& options, softswitch::ControlTap* control)
    : limits_(options), switch_(options), seals_(std::move(links.seals)) {
  if (control != nullptr) {
    switch_.exclusively([control](softswitch::SoftSwitch& s) { s.hand_requests_to(control); });
  }
  workers_.push_back(std::make_unique<Worker>(*this, std::move(links.udp), kFrames, BatchingSink::kHeldBytes));
  if (links.tcp) workers_.push_back(std::make_unique<Worker>(*this, std::move(links.tcp), kTcpFrames, SIZE_MAX));
  if (links.card) {
    workers_.push_back(std::make_unique<Worker>(*this, std::move(links.card), kCardFrames, 0));
    meeting_ = workers_.back().get();
    meetings_ = std::make_unique<Meetings>(*meeting_->transport);
    switch_.exclusively([this](softswitch::SoftSwitch& s) { s.answer_meets_by(meetings_.get()); });
  }
  try {
    for (auto& worker : workers_) worker->thread = make_thread("a switch", [this, &worker = *worker] { run(worker); });
  } catch (const NoThread&) {
    stop();
    throw;
  }
}

SwitchServer::~SwitchServer() { stop(); }

Endpoint SwitchServer::local() const { return workers_.front()->transport->local(); }
SwitchCounters SwitchServer::counters() const {
  SwitchCounters all = switch_.counters();
  for (const auto& seal : seals_) {
    all.dropped_plain.add(seal->dropped_plain.load(std::memory_order_relaxed));
    all.dropped_forged.add(seal->dropped_forged.load(std::memory_order_relaxed));
    all.dropped_replayed.add(seal->dropped_replayed.load(std::memory_order_relaxed));
  }
  return all;
}
size_t SwitchServer::memory_bytes() const {
  size_t total = switch_.slot_memory_in_use();
  for (const auto& worker : workers_) total += worker->transport->limits().held_bytes;
  return total;
}

SideWork* SwitchServer::side_work(Carrier carrier) { return worker_for(carrier); }

// Null where that is a card.
SwitchServer::Worker* SwitchServer::worker_for(Carrier carrier) const {
  for (const auto& worker : workers_) {
    const bool is_udp = worker == workers_.front();
    const bool is_tcp = carrier == Carrier::kTcp || carrier == Carrier::kTcpAccepted;
    const bool serves = carrier == Carrier::kPackets ? is_udp : is_tcp && !is_udp;
    if (serves && worker.get() != meeting_) return worker.get();
  }
  return nullptr;
}

std::unique_ptr<Transport> SwitchServer::link_directly(const wire::Membership& member, int shard,
                                                       std::unique_ptr<Transport> link) {
  const Endpoint from =
      switch_.exclusively([&](const softswitch::SoftSwitch& s) { return s.joined_from(member, shard); });
  Worker* const served_by = from.size == 0 ? nullptr : worker_for(from.carrier);
  return served_by == nullptr ? std::move(link) : served_by->transport->admit(from, std::move(link));
}

void SwitchServer::invite(uint64_t client_key) {
  switch_.exclusively([client_key](softswitch::SoftSwitch& s) { s.invite(client_key); });
}

Status SwitchServer::install(const softswitch::InstalledSession& session) {
  return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.install(session, monotonic_now()); });
}

Status SwitchServer::set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) {
  return switch_.exclusively(
      [&](softswitch::SoftSwitch& s) { return s.set_member(job, epoch, worker, shard, endpoint); });
}

void SwitchServer::remove(uint8_t job, uint32_t epoch) {
  switch_.exclusively([&](softswitch::SoftSwitch& s) { s.remove(job, epoch); });
}

void SwitchServer::remove_all() {
  switch_.exclusively([](softswitch::SoftSwitch& s) { s.remove_all(); });
}

Result<WorkerSet> SwitchServer::contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) {
  return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.contributed(job, epoch, slot, seq); });
}

void SwitchServer::send(std::vector<uint8_t> frame, const Endpoint& to) {
  {
    const std::lock_guard<std::mutex> lock(outbox_mutex_);
    if (outbox_.size() >= kMostWaiting) return;
    outbox_.push_back({std::move(frame), to});
    mail_.store(true, std::memory_order_release);
  }
  workers_.front()->wake();
}

void SwitchServer::stop() {
  stop_.store(true, std::memory_order_release);
  for (auto& worker : workers_) worker->wake();
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void SwitchServer::send_mail(Worker& worker) {
  if (!mail_.load(std::memory_order_acquire)) return;
  std::vector<OutboxFrame> outgoing;
  {
    const std::lock_guard<std::mutex> lock(outbox_mutex_);
    outgoing.swap(outbox_);
    mail_.store(false, std::memory_order_release);
  }
  for (const OutboxFrame& mail : outgoing) worker.sink.unicast(mail.frame.data(), mail.frame.size(), mail.to);
  worker.sink.flush();
}

void SwitchServer::run(Worker& worker) {
  pthread_setname_np(pthread_self(), "switchml-switch");
  std::fesetenv(FE_DFL_ENV);                              // The hosting program may have set another one.
  const bool sweeps = &worker == workers_.front().get();  // One thread sweeps.
  Time next_sweep = monotonic_now() + kSweepInterval;
  while (!stop_.load(std::memory_order_acquire)) {
    worker.rest();
    if (&worker == meeting_) answer_meets();
    const bool busy = serve(worker);
    const Time now = monotonic_now();
    if (now >= next_sweep) {
      if (sweeps) {
        switch_.exclusively([now](softswitch::SoftSwitch& s) { s.sweep(now); });
      }
      if (&worker == meeting_) forget_gone();
      report_errors(worker);
      next_sweep = now + kSweepInterval;
    }
    if (!busy && !worker.is_wanted()) worker.transport->wait(next_sweep - now);
  }
}

void SwitchServer::answer_meets() {
  const Time now = monotonic_now();
  const auto join = [&](const wire::Join& asked, const Endpoint& from) {
    return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.join(asked, from, now); });
  };
  meetings_->answer(join, [this](std::vector<uint8_t> reply, const Endpoint& to) { send(std::move(reply), to); });
}

// [MEET-5]
void SwitchServer::forget_gone() {
  meetings_->forget_gone([this](uint8_t job, uint32_t epoch) {
    return switch_.exclusively([&](softswitch::SoftSwitch& s) { return s.serves(job, epoch); });
  });
}

// Processes the frames that have arrived and sends the answers. False: there were none.
bool SwitchServer::serve(Worker& worker) {
  if (&worker == workers_.front().get()) send_mail(worker);
  const size_t count = worker.transport->receive(worker.frames.data(), worker.frames.size());
  if (count == 0) return false;
  switch_.process(worker.frames.data(), count, monotonic_now(), worker.sink);
  worker.transport->release();
  worker.sink.flush();
  return true;
}

void SwitchServer::report_errors(Worker& worker) {
  const std::string error = worker.transport->take_error();
  if (!error.empty()) SWITCHML_LOG(kDebug) << "switch " << to_string(local()) << ": " << error;
}

Result<std::unique_ptr<SwitchServer>> SwitchServer::start(const ServerOptions& options) {
  auto links = open_links(options);
  if (!links.ok()) return links.status();
  if (Status status = add_card(options, &links.value()); !status.ok()) return status;
  softswitch::SwitchOptions switch_options = options.softswitch;
  switch_options.has_card = links->card != nullptr;
  switch_options.sealed = options.seal.has_value();
  const size_t granted = links->udp->limits().receive_buffer_bytes;
  if (switch_options.receive_buffer_bytes == 0) switch_options.receive_buffer_bytes = granted;
  // A client is a host.
  switch_options.client_of = [](const Endpoint& from) { return with_carrier(with_port(from, 0), Carrier::kPackets); };
  switch_options.suits_tcp = links->tcp != nullptr;
  if (switch_options.seed == 0) switch_options.seed = random_bits();
  try {
    if (options.seal) seal_links(*options.seal, &links.value());
    return std::unique_ptr<SwitchServer>(new SwitchServer(std::move(links.value()), switch_options, options.control));
  } catch (const StatusError& error) {  // no thread, or no cipher
    return error.status();
  }
}

}  // namespace switchml
