#include "switchd/server.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cfenv>
#include <thread>

#include "base/limits.h"
#include "base/log.h"
#include "switchd/batching_sink.h"
#include "transport/address.h"
#include "transport/udp.h"

namespace switchml {

namespace {

constexpr Duration kSweepInterval = seconds(1);

uint64_t system_random() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

class UdpSwitchServer : public SwitchServer {
 public:
  UdpSwitchServer(std::unique_ptr<Transport> transport, const softswitch::SwitchOptions& options)
      : transport_(std::move(transport)), switch_(options), sink_(*transport_), thread_([this] { run(); }) {}

  ~UdpSwitchServer() override {
    stop_.store(true, std::memory_order_release);
    transport_->wake();
    thread_.join();
  }

  Endpoint local() const override { return transport_->local(); }
  const SwitchCounters& counters() const override { return switch_.counters(); }
  size_t memory_bytes() const override {
    return slot_bytes_.load(std::memory_order_relaxed) + transport_->limits().held_bytes;
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "switchml-switch");
    std::fesetenv(FE_DFL_ENV);  // whatever the program that hosts this thread has set
    Time next_sweep = monotonic_now() + kSweepInterval;
    while (!stop_.load(std::memory_order_acquire)) {
      const bool busy = burst();
      const Time now = monotonic_now();
      if (now >= next_sweep) {
        switch_.sweep(now);
        slot_bytes_.store(switch_.slot_memory_in_use(), std::memory_order_relaxed);
        report_errors();
        next_sweep = now + kSweepInterval;
      }
      if (!busy) transport_->wait(next_sweep - now);
    }
  }

  // Takes what has arrived and sends the answers. False: nothing had arrived.
  bool burst() {
    RxFrame frames[kBurst];
    const size_t count = transport_->receive(frames, kBurst);
    if (count == 0) return false;
    const Time now = monotonic_now();
    for (size_t i = 0; i < count; ++i) switch_.process(frames[i].data, frames[i].size, frames[i].from, now, sink_);
    transport_->release();
    sink_.flush();
    slot_bytes_.store(switch_.slot_memory_in_use(), std::memory_order_relaxed);
    return true;
  }

  void report_errors() {
    const std::string error = transport_->take_error();
    if (!error.empty()) SWITCHML_LOG(kDebug) << "switch " << to_string(local()) << ": " << error;
  }

  std::unique_ptr<Transport> transport_;
  softswitch::SoftSwitch switch_;
  BatchingSink sink_;
  std::atomic<size_t> slot_bytes_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Result<std::unique_ptr<SwitchServer>> SwitchServer::start(const ServerOptions& options) {
  UdpOptions udp;
  udp.bind = options.listen;
  udp.receive_buffer_bytes = options.receive_buffer_bytes;
  udp.receive_frames = kBurst;
  auto transport = make_udp_transport(udp);
  if (!transport.ok()) return transport.status();
  softswitch::SwitchOptions switch_options = options.softswitch;
  const size_t granted = transport.value()->limits().receive_buffer_bytes;
  if (switch_options.receive_buffer_bytes == 0) switch_options.receive_buffer_bytes = granted;
  if (switch_options.seed == 0) switch_options.seed = system_random();
  return std::unique_ptr<SwitchServer>(new UdpSwitchServer(std::move(transport.value()), switch_options));
}

}  // namespace switchml
