// N workers' shards and a software switch on a virtual clock and a seeded network: the code that ships,
// single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/shard.h"
#include "softswitch/switch.h"
#include "transport/frame_memory.h"
#include "wire/control.h"

namespace switchml::testing {

struct NetFaults {
  uint64_t seed = 1;
  double loss = 0.0;
  double duplicate = 0.0;
  double corrupt = 0.0;
  int max_delay_rounds = 1;  // each frame takes 1..this many rounds: reorders
};

inline Endpoint endpoint(int number) {
  Endpoint e;
  e.size = 4;
  e.bytes[0] = static_cast<uint8_t>(number);
  e.bytes[1] = static_cast<uint8_t>(number >> 8);
  return e;
}
inline int number_of(const Endpoint& e) { return e.bytes[0] | e.bytes[1] << 8; }

/// Frames under way, by the round in which they arrive.
class VirtualNetwork {
 public:
  explicit VirtualNetwork(const NetFaults& faults) : faults_(faults), random_(faults.seed) {}

  void send(int from, int to, const uint8_t* data, size_t size, bool reliable = false) {
    ++sent;
    if (!reliable && chance(faults_.loss)) return;
    const int copies = !reliable && chance(faults_.duplicate) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      std::vector<uint8_t> bytes(data, data + size);
      if (!reliable && tamper) tamper(from, bytes);
      if (!reliable && chance(faults_.corrupt)) {
        const size_t bit = random_() % (size * 8);
        bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
      }
      const auto delay = 1 + random_() % static_cast<uint64_t>(faults_.max_delay_rounds);
      flying_.insert({round_ + delay, Flying{from, to, std::move(bytes)}});
    }
  }

  struct Flying {
    int from;
    int to;
    std::vector<uint8_t> bytes;
  };
  /// Frames that arrive in the next round, in a seeded order.
  std::vector<Flying> advance() {
    ++round_;
    std::vector<Flying> arrived;
    while (!flying_.empty() && flying_.begin()->first <= round_) {
      arrived.push_back(std::move(flying_.begin()->second));
      flying_.erase(flying_.begin());
    }
    if (faults_.max_delay_rounds > 1) std::shuffle(arrived.begin(), arrived.end(), random_);
    return arrived;
  }

  uint64_t sent = 0;
  /// Alters a frame of sender `from` as it leaves; null: none.
  std::function<void(int from, std::vector<uint8_t>& frame)> tamper;

 private:
  bool chance(double p) { return p > 0 && std::uniform_real_distribution<>(0, 1)(random_) < p; }
  NetFaults faults_;
  std::mt19937_64 random_;
  uint64_t round_ = 0;
  std::multimap<uint64_t, Flying> flying_;
};

class VirtualTransport final : public Transport {
 public:
  VirtualTransport(VirtualNetwork* net, int self) : net_(net), self_(self) {}
  const char* name() const override { return "virtual"; }
  TransportLimits limits() const override { return {65507, 0}; }
  Endpoint local() const override { return endpoint(self_); }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    if (cut) return count;
    for (size_t i = 0; i < count; ++i) net_->send(self_, number_of(*frames[i].to), frames[i].data, frames[i].size);
    return count;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    lent_.clear();
    while (lent_.size() < count && !inbox.empty()) {
      lent_.push_back(std::move(inbox.front()));
      inbox.pop_front();
    }
    for (size_t i = 0; i < lent_.size(); ++i) {
      frames[i] = {lent_[i].data(), static_cast<uint32_t>(lent_[i].size()), endpoint(0)};
    }
    return lent_.size();
  }
  void release() override {
    for (auto& frame : lent_) std::fill(frame.begin(), frame.end(), 0xee);  // a use after release shows
    lent_.clear();
  }
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return std::exchange(error, std::string()); }
  bool take_refusal() override { return std::exchange(refused, false); }

  std::deque<std::vector<uint8_t>> inbox;
  bool cut = false;
  std::string error;
  bool refused = false;

 private:
  VirtualNetwork* net_;
  int self_;
  FrameMemory memory_;
  std::vector<std::vector<uint8_t>> lent_;
};

struct ClusterOptions {
  int workers = 2;
  int shards = 1;
  int slots = 8;
  size_t payload = 1024;
  NetFaults faults;
  bool whole_chunks = false;
  bool keep_results = false;
  bool exact = false;
  Duration lease = seconds(10000);
};

class Cluster : private softswitch::PacketSink {
 public:
  static constexpr Duration kRound = microseconds(100);

  explicit Cluster(const ClusterOptions& options) : options_(options), net_(options.faults) {
    new_switch();
    for (int w = 0; w < options.workers; ++w) {
      for (int s = 0; s < options.shards; ++s) add_shard(w, s);
    }
  }

  /// Submits to one worker; returns where its outcome will stand. `chunk_bytes`: as Shard::submit() has it.
  std::shared_ptr<std::vector<Status>> submit(int worker, Collective collective, size_t chunk_bytes = 0) {
    auto outcome = std::make_shared<std::vector<Status>>();
    collective.done = [outcome](const Status& status) { outcome->push_back(status); };
    const size_t span = elements_per_span(collective.type, session_.payload_bytes, session_.exact);
    auto shared = std::make_shared<SharedCollective>(std::move(collective), options_.shards);
    for (int s = 0; s < options_.shards; ++s) {
      shard(worker, s).submit(shared, shard_part(shared->collective().count, span, s, options_.shards), chunk_bytes);
    }
    outcomes_.push_back(outcome);
    return outcome;
  }

  /// Runs until everything submitted has an outcome; false if that takes longer than `limit` of virtual time.
  bool run(Duration limit = seconds(100)) {
    const Time end = now_ + limit;
    while (now_ < end) {
      if (all_done()) return true;
      round();
    }
    return all_done();
  }

  void round() {
    now_ += kRound;
    for (auto& worker : shards_) {
      if (!stopped[static_cast<size_t>(worker.first.first)]) worker.second->step(now_);
    }
    for (auto& frame : net_.advance()) {
      if (frame.to == kSwitch) {
        if (switch_alive) switch_->process(frame.bytes.data(), frame.bytes.size(), endpoint(frame.from), now_, *this);
      } else {
        transports_.at(frame.to)->inbox.push_back(std::move(frame.bytes));
      }
    }
  }

  bool all_done() const {
    for (const auto& outcome : outcomes_) {
      if (outcome->empty()) return false;
    }
    return true;
  }

  Shard& shard(int worker, int s = 0) { return *shards_.at({worker, s}); }
  VirtualTransport& transport(int worker, int s = 0) { return *transports_.at(number(worker, s)); }
  softswitch::SoftSwitch& the_switch() { return *switch_; }
  const SessionParameters& session() const { return session_; }
  Time now() const { return now_; }
  uint64_t frames_sent() const { return net_.sent; }
  VirtualNetwork& network() { return net_; }
  static constexpr int kSwitch = 0;  // sender's number; workers' are above
  /// Frames straight into a worker's inbox.
  void inject(int worker, std::vector<uint8_t> frame) { transport(worker).inbox.push_back(std::move(frame)); }

  /// A switch that knows nothing takes the place of the old one, and all workers join a session on it. What is under
  /// way to and from the old one still arrives.
  Route new_switch() {
    softswitch::SwitchOptions switch_options;
    switch_options.seed = ++seed_;
    switch_options.whole_chunks = options_.whole_chunks;
    switch_ = std::make_unique<softswitch::SoftSwitch>(switch_options);
    open_session();
    for (int w = 0; w < options_.workers; ++w) {
      for (int s = 0; s < options_.shards; ++s) join(w, s);
    }
    Route route = session_;
    route.switch_name += " " + std::to_string(seed_);
    return route;
  }

  bool switch_alive = true;
  std::vector<bool> stopped = std::vector<bool>(256, false);
  std::vector<Status> failures;  // on_failure calls, of any worker
  std::vector<Status> lost;      // on_switch_lost calls, where results are kept

 private:
  int number(int worker, int s) const { return 1 + worker * options_.shards + s; }

  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    net_.send(kSwitch, number_of(to), frame, size);
    last_reply_.assign(frame, frame + size);
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    for (size_t i = 0; i < count; ++i) net_.send(kSwitch, number_of(*to[i]), frame, size);
  }

  void open_session() {
    wire::Open open;
    open.client_key = 77;
    open.workers = static_cast<uint16_t>(options_.workers);
    open.shards = static_cast<uint16_t>(options_.shards);
    open.slots = static_cast<uint16_t>(options_.slots);
    open.payload = static_cast<uint32_t>(options_.payload);
    if (options_.exact) open.flags = wire::kOpenExact;
    uint8_t frame[wire::kMaxControlBytes];
    const size_t size = wire::build_open(open, 1, frame);
    switch_->process(frame, size, endpoint(1), now_, *this);
    wire::Reply reply;
    ASSERT_EQ(wire::parse_reply(last_reply_.data(), last_reply_.size(), &reply), wire::ParseError::kNone);
    ASSERT_EQ(reply.status, wire::ReplyStatus::kOk);
    session_.job = reply.open.job;
    session_.epoch = reply.open.epoch;
    session_.session_key = reply.open.session_key;
    session_.workers = options_.workers;
    session_.shards = options_.shards;
    session_.slots = reply.open.slots;
    session_.payload_bytes = reply.open.payload;
    session_.exact = (reply.open.flags & wire::kOpenExact) != 0;
    ASSERT_EQ(session_.exact, options_.exact);
    session_.whole_chunks = (reply.open.flags & wire::kOpenWholeChunks) != 0;
    session_.lease = options_.lease;
    session_.secret[0] = 0x1234;
    session_.secret[1] = 0x5678;
    session_.switch_endpoint = endpoint(kSwitch);
    session_.switch_name = "virtual";
  }

  void join(int worker, int s) {
    wire::Membership member{session_.job, session_.epoch, session_.session_key, static_cast<uint8_t>(worker)};
    uint8_t frame[wire::kMaxControlBytes];
    for (int i = 0; i < 2; ++i) {  // and once more with the cookie
      const size_t size = wire::build_join(member, s, 2, frame);
      switch_->process(frame, size, endpoint(number(worker, s)), now_, *this);
      wire::Reply reply;
      ASSERT_EQ(wire::parse_reply(last_reply_.data(), last_reply_.size(), &reply), wire::ParseError::kNone);
      member.cookie = reply.join.cookie;
    }
  }

  void add_shard(int worker, int s) {
    auto transport = std::make_unique<VirtualTransport>(&net_, number(worker, s));
    transports_[number(worker, s)] = transport.get();
    EngineOptions options;
    options.session = session_;
    options.session.worker = worker;
    options.keep_results = options_.keep_results;
    if (options_.keep_results)
      options.on_switch_lost = [this](size_t, const Status& status) { lost.push_back(status); };
    options.rto_min = milliseconds(2);
    options.rto_max = milliseconds(50);
    shards_[{worker, s}] = std::make_unique<Shard>(s, options, std::move(transport), now_,
                                                   [this](const Status& status) { failures.push_back(status); });
  }

  ClusterOptions options_;
  VirtualNetwork net_;
  Time now_{seconds(1)};
  SessionParameters session_;
  std::unique_ptr<softswitch::SoftSwitch> switch_;
  std::map<std::pair<int, int>, std::unique_ptr<Shard>> shards_;
  std::map<int, VirtualTransport*> transports_;
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes_;
  std::vector<uint8_t> last_reply_;
  uint64_t seed_ = 41;
};

}  // namespace switchml::testing
