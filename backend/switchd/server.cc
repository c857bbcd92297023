#include "switchd/server.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cfenv>
#include <mutex>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "switchd/batching_sink.h"
#include "transport/address.h"
#include "transport/udp.h"
#include "transport/udp_local.h"

namespace switchml {

namespace {

constexpr Duration kSweepInterval = seconds(1);
constexpr size_t kMostWaiting = 1024;

uint64_t system_random() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

class UdpSwitchServer : public SwitchServer {
 public:
  UdpSwitchServer(std::vector<std::unique_ptr<Transport>> transports, const softswitch::SwitchOptions& options,
                  softswitch::ControlTap* control)
      : limits_(options), switch_(options) {
    if (control != nullptr) switch_.hand_requests_to(control);
    for (auto& transport : transports) lanes_.push_back(std::make_unique<Lane>(std::move(transport)));
    for (auto& lane : lanes_) lane->thread = std::thread([this, &lane = *lane] { run(lane); });
  }

  ~UdpSwitchServer() override {
    stop_.store(true, std::memory_order_release);
    for (auto& lane : lanes_) lane->transport->wake();
    for (auto& lane : lanes_) lane->thread.join();
  }

  Endpoint local() const override { return lanes_.front()->transport->local(); }
  const SwitchCounters& counters() const override { return switch_.counters(); }
  const softswitch::SwitchOptions& limits() const override { return limits_; }
  size_t memory_bytes() const override {
    size_t total = slot_bytes_.load(std::memory_order_relaxed);
    for (const auto& lane : lanes_) total += lane->transport->limits().held_bytes;
    return total;
  }

  Status install(const softswitch::InstalledSession& session) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return switch_.install(session, monotonic_now());
  }
  Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return switch_.set_member(job, epoch, worker, shard, endpoint);
  }
  void remove(uint8_t job, uint32_t epoch) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch_.remove(job, epoch);
  }
  void remove_all() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch_.remove_all();
  }
  Result<softswitch::WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return switch_.contributed(job, epoch, slot, seq);
  }
  void send(std::vector<uint8_t> frame, const Endpoint& to) override {
    {
      const std::lock_guard<std::mutex> lock(outbox_mutex_);
      if (outbox_.size() >= kMostWaiting) return;
      outbox_.push_back({std::move(frame), to});
      mail_.store(true, std::memory_order_release);
    }
    lanes_.front()->transport->wake();
  }

 private:
  /// What one thread has for itself.
  struct Lane {
    explicit Lane(std::unique_ptr<Transport> t) : transport(std::move(t)), sink(*transport) {}
    std::unique_ptr<Transport> transport;
    BatchingSink sink;
    std::thread thread;
  };

  struct Outgoing {
    std::vector<uint8_t> frame;
    Endpoint to;
  };

  void send_mail(Lane& lane) {
    if (!mail_.load(std::memory_order_acquire)) return;
    std::vector<Outgoing> outgoing;
    {
      const std::lock_guard<std::mutex> lock(outbox_mutex_);
      outgoing.swap(outbox_);
      mail_.store(false, std::memory_order_release);
    }
    for (const Outgoing& mail : outgoing) lane.sink.unicast(mail.frame.data(), mail.frame.size(), mail.to);
    lane.sink.flush();
  }

  void run(Lane& lane) {
    pthread_setname_np(pthread_self(), "switchml-switch");
    std::fesetenv(FE_DFL_ENV);                          // whatever the program that hosts this thread has set
    const bool sweeps = &lane == lanes_.front().get();  // and sends what others hand in
    Time next_sweep = monotonic_now() + kSweepInterval;
    while (!stop_.load(std::memory_order_acquire)) {
      if (sweeps) send_mail(lane);
      const bool busy = burst(lane);
      const Time now = monotonic_now();
      if (now >= next_sweep) {
        if (sweeps) sweep(now);
        report_errors(lane);
        next_sweep = now + kSweepInterval;
      }
      if (!busy) lane.transport->wait(next_sweep - now);
    }
  }

  void sweep(Time now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch_.sweep(now);
    slot_bytes_.store(switch_.slot_memory_in_use(), std::memory_order_relaxed);
  }

  // Takes what has arrived and sends the answers. False: nothing had arrived.
  bool burst(Lane& lane) {
    RxFrame frames[kBurst];
    const size_t count = lane.transport->receive(frames, kBurst);
    if (count == 0) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const Time now = monotonic_now();
      for (size_t i = 0; i < count; ++i) {
        switch_.process(frames[i].data, frames[i].size, frames[i].from, now, lane.sink);
      }
      slot_bytes_.store(switch_.slot_memory_in_use(), std::memory_order_relaxed);
    }
    lane.transport->release();
    lane.sink.flush();
    return true;
  }

  void report_errors(Lane& lane) {
    const std::string error = lane.transport->take_error();
    if (!error.empty()) SWITCHML_LOG(kDebug) << "switch " << to_string(local()) << ": " << error;
  }

  const softswitch::SwitchOptions limits_;
  std::mutex outbox_mutex_;
  std::vector<Outgoing> outbox_;
  std::atomic<bool> mail_{false};
  std::mutex mutex_;  // of the switch
  softswitch::SoftSwitch switch_;
  std::atomic<size_t> slot_bytes_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Lane>> lanes_;  // complete before the first thread starts
};

Result<std::vector<std::unique_ptr<Transport>>> open_transports(const ServerOptions& options) {
  if (options.threads < 1 || options.threads > kMaxSwitchThreads) {
    return Status(Code::kInvalidArgument, "a switch with " + std::to_string(options.threads) +
                                              " threads; allowed: 1 to " + std::to_string(kMaxSwitchThreads));
  }
  UdpOptions udp;
  udp.bind = options.listen;
  udp.receive_buffer_bytes = options.receive_buffer_bytes;
  udp.receive_frames = kBurst;
  if (options.threads > 1) {
    // Another switch of this user with threads would share the port with us, and take half of the workers.
    auto alone = make_udp_transport(udp);
    if (!alone.ok()) return alone.status();
    udp.bind = alone.value()->local();
    udp.share_port = true;
  }
  udp.local_addresses = std::make_shared<LocalAddresses>();
  std::vector<std::unique_ptr<Transport>> transports;
  for (int i = 0; i < options.threads; ++i) {
    auto transport = make_udp_transport(udp);
    if (!transport.ok()) return transport.status();
    udp.bind = transport.value()->local();  // the port that the first one got
    transports.push_back(std::move(transport.value()));
  }
  return transports;
}

}  // namespace

Result<std::unique_ptr<SwitchServer>> SwitchServer::start(const ServerOptions& options) {
  auto transports = open_transports(options);
  if (!transports.ok()) return transports.status();
  softswitch::SwitchOptions switch_options = options.softswitch;
  const size_t granted = transports.value().front()->limits().receive_buffer_bytes;
  if (switch_options.receive_buffer_bytes == 0) switch_options.receive_buffer_bytes = granted;
  switch_options.client_of = [](const Endpoint& from) { return with_port(from, 0); };  // a host
  if (switch_options.seed == 0) switch_options.seed = system_random();
  return std::unique_ptr<SwitchServer>(
      new UdpSwitchServer(std::move(transports.value()), switch_options, options.control));
}

}  // namespace switchml
