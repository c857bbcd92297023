// One shard without a network or a switch: the test sees every frame it sends, writes what it receives, and moves its
// clock. In a session of one worker a contribution is its own sum, so the test can answer like a switch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/shard.h"
#include "in_place.h"
#include "transport/frame_memory.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml::testing {

using Bytes = std::vector<uint8_t>;

class RecordingTransport final : public Transport, public QueuePairs {
 public:
  const char* name() const override { return "recording"; }
  QueuePairs* queue_pairs() override { return this; }
  bool is_direct() const override { return direct; }
  bool gathers() const override { return gathers_rests; }
  TransportLimits limits() const override { return {65507, 0, 0}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    const size_t taken = std::min(count, takes);
    bursts.push_back(count);
    for (size_t i = 0; i < taken; ++i) {
      sent.emplace_back(frames[i].data, frames[i].data + frames[i].size);
      may_change.push_back(frames[i].may_change);
      sent_as.push_back(frames[i].ecn);
      if (frames[i].rest == nullptr) continue;
      sent.back().insert(sent.back().end(), frames[i].rest, frames[i].rest + frames[i].rest_size);
      (frames[i].may_change ? copied : in_place).push_back(frames[i].rest);
    }
    return taken;
  }
  std::optional<wire::Target> target_of(const void* data, size_t bytes) override {
    const auto at = reinterpret_cast<uintptr_t>(data), begin = reinterpret_cast<uintptr_t>(reachable.data);
    if (at < begin || at + bytes > begin + reachable.bytes) return std::nullopt;
    return wire::Target{at, 77, static_cast<uint32_t>(bytes)};
  }
  bool is_connected(const Endpoint&) const override { return is_met; }
  Result<wire::Introduction> queue_pair_for(const Endpoint&) override {
    wire::Introduction own;
    own.queue_pair = 17;
    return own;
  }
  Status connect(const Endpoint&, const wire::Introduction&) override {
    is_met = true;
    return {};
  }
  void disconnect(const Endpoint&) override {
    if (on_forget) on_forget();
  }
  size_t receive(RxFrame* frames, size_t count) override {
    size_t n = 0;
    for (; n < count && !inbox.empty(); ++n) {
      lent.push_back(std::move(inbox.front()));
      inbox.pop_front();
      frames[n] = {lent.back().data(), static_cast<uint32_t>(lent.back().size()), {}, arrives_as, direct};
    }
    return n;
  }
  void release() override { lent.clear(); }
  void wait(Duration) override {}
  void wake() override { ++wakes; }
  std::string take_error() override { return std::exchange(error, std::string()); }
  bool take_refusal() override { return std::exchange(refused, false); }

  std::vector<Bytes> sent;
  bool is_met = true;
  bool direct = false;
  bool gathers_rests = false;
  std::vector<bool> may_change;  // of each, whether it must be copied
  std::vector<Ecn> sent_as;
  Ecn arrives_as = Ecn::kNone;
  std::vector<size_t> bursts;  // frames per send()
  size_t takes = SIZE_MAX;     // frames of one send() that it takes
  TensorMemory::Extent reachable;
  std::vector<const uint8_t*> in_place, copied;  // rests of frames
  std::function<void()> on_forget;
  std::deque<Bytes> inbox;
  std::deque<Bytes> lent;
  std::string error;
  bool refused = false;
  int wakes = 0;

 private:
  FrameMemory memory_;
};

struct LoneOptions {
  int workers = 1;
  int worker = 0;
  int shards = 1;
  int shard = 0;
  int slots = 8;  // 2 for calls (0, 1), 6 for data (2 to 7)
  size_t payload = 1024;
  Duration lease = seconds(10000);
  bool exact = false;  // then all slots are one lane, or two from 64 on
  Carrier carrier = Carrier::kPackets;
  bool keep_results = false;
  bool whole_chunks = false;
  bool congestion_control = false;  // so that all slots are in use at once
  SlowWarning slow;
};

inline constexpr uint64_t kLoneKey = 4711;  // the session's

inline wire::Header header_of(const Bytes& frame) { return wire::read_header(frame.data()); }
inline size_t words_of(const Bytes& frame) { return (frame.size() - wire::kHeaderBytes) / 4; }
inline bool is_contribution(const Bytes& frame) {
  const auto kind = static_cast<wire::Kind>(wire::kind_of(frame.data()));
  return kind == wire::Kind::kContribution || kind == wire::Kind::kExactContribution;
}

inline wire::ExactHeader exact_header_of(const Bytes& frame) { return wire::read_exact_header(frame.data()); }
inline Bytes elements_of(const Bytes& frame) { return {frame.begin() + wire::kExactHeaderBytes, frame.end()}; }
/// An exact result that a switch with the session's key would seal: fields as `header` says, these elements.
inline Bytes sealed(const wire::ExactHeader& header, const Bytes& elements, wire::ChecksumRule rule = {kLoneKey}) {
  Bytes frame(wire::kExactHeaderBytes);
  frame.insert(frame.end(), elements.begin(), elements.end());
  wire::seal_exact(header, rule, frame.data(), elements.size());
  return frame;
}
inline wire::ExactHeader exact_result_header(const Bytes& contribution) {
  wire::ExactHeader header = exact_header_of(contribution);
  header.kind = static_cast<uint8_t>(wire::Kind::kExactResult);
  header.flags = 0;
  header.worker = kAllWorkers;
  return header;
}

/// What a switch answers to a contribution in a session of one worker.
inline Bytes result_of(Bytes frame) {
  if (wire::kind_of(frame.data()) == static_cast<uint8_t>(wire::Kind::kExactContribution)) {
    return sealed(exact_result_header(frame), elements_of(frame));
  }
  wire::Header header = header_of(frame);
  header.kind = static_cast<uint8_t>(wire::Kind::kResult);
  header.flags &= wire::kOperationMask;
  header.worker = kAllWorkers;
  wire::write_header(header, frame.data());
  return frame;
}

/// A contribution as it was sent the first time.
inline Bytes without_repeat_flag(Bytes frame) {
  frame[wire::kHeaderOffsetFlags] &= static_cast<uint8_t>(~wire::kFlagRepeat);
  return frame;
}

inline Collective barrier() {
  Collective c;
  c.op = ReduceOp::kBarrier;
  c.title = "barrier";
  return c;
}

class LoneShard {
 public:
  explicit LoneShard(const LoneOptions& options = {}) {
    EngineOptions engine;
    engine.session.job = 9;
    engine.session.epoch = 0xabcd;
    engine.session.worker = options.worker;
    engine.session.workers = options.workers;
    engine.session.shards = options.shards;
    engine.session.slots = options.slots;
    engine.session.payload_bytes = options.payload;
    engine.session.exact = options.exact;
    engine.session.whole_chunks = options.whole_chunks;
    engine.congestion_control = options.congestion_control;
    engine.session.switch_endpoint.carrier = options.carrier;
    engine.keep_results = options.keep_results;
    engine.session.session_key = kLoneKey;
    engine.session.secret[0] = 1;
    engine.session.secret[1] = 2;
    engine.session.lease = options.lease;
    engine.session.switch_name = "test-switch";
    engine.slow = options.slow;
    engine.rto_min = milliseconds(2);  // so the first timeout is 8 ms
    engine.rto_max = milliseconds(50);
    session = engine.session;
    auto owned = std::make_unique<RecordingTransport>();
    transport = owned.get();
    shard = std::make_unique<Shard>(options.shard, engine, std::move(owned), now,
                                    [this](const Status& status) { failures.push_back(status); });
  }

  std::shared_ptr<std::vector<Status>> submit(Collective collective) {
    auto outcome = std::make_shared<std::vector<Status>>();
    collective.done = [outcome](const Status& status) { outcome->push_back(status); };
    const ElementRange part =
        shard_part(collective.count, elements_per_span(collective.type, session.payload_bytes, session.exact),
                   shard->index(), session.shards);
    shard->submit(std::make_shared<SharedCollective>(std::move(collective), 1), part);
    return outcome;
  }

  /// Steps at the present time and returns what was sent.
  std::vector<Bytes> step() {
    shard->step(now);
    return std::exchange(transport->sent, {});
  }
  /// Lets time pass in steps of half a millisecond and returns what was sent.
  std::vector<Bytes> pass(Duration time) {
    std::vector<Bytes> sent;
    for (const Time end = now + time; now < end;) {
      now += microseconds(500);
      for (Bytes& frame : step()) sent.push_back(std::move(frame));
    }
    return sent;
  }
  std::vector<Bytes> deliver(const std::vector<Bytes>& frames) {
    for (const Bytes& frame : frames) transport->inbox.push_back(frame);
    return step();
  }
  /// Answers contributions, and those that follow, until nothing is sent any more.
  void answer_all(std::vector<Bytes> contributions) {
    while (!contributions.empty()) {
      for (const Bytes& frame : contributions) transport->inbox.push_back(result_of(frame));
      contributions = step();
      while (!transport->inbox.empty()) {
        for (Bytes& frame : step()) contributions.push_back(std::move(frame));
      }
    }
  }
  const WorkerCounters& counters() const { return shard->counters(); }

  SessionParameters session;
  Time now{seconds(1)};
  RecordingTransport* transport = nullptr;
  std::unique_ptr<Shard> shard;
  std::vector<Status> failures;
};

inline std::vector<int> slots_of(const std::vector<Bytes>& frames) {
  std::vector<int> slots;
  for (const Bytes& frame : frames) slots.push_back(header_of(frame).slot);
  return slots;
}

/// Timers that end together fire in no order.
inline std::vector<Bytes> by_slot(std::vector<Bytes> frames) {
  std::stable_sort(frames.begin(), frames.end(),
                   [](const Bytes& a, const Bytes& b) { return header_of(a).slot < header_of(b).slot; });
  return frames;
}

/// A reply of the switch: the control part, the body of its type and the checksum.
inline Bytes reply(wire::Request type, wire::ReplyStatus status, uint32_t request_id, const Bytes& body) {
  Bytes frame(wire::kControlBytes + body.size() + wire::kControlCheckBytes);
  std::copy(body.begin(), body.end(), frame.begin() + wire::kControlBytes);
  wire::Control control;
  control.version = wire::kVersion;
  control.kind = static_cast<uint8_t>(wire::Kind::kReply);
  control.type = static_cast<uint8_t>(type);
  control.status = static_cast<uint16_t>(status);
  control.request_id = request_id;
  wire::write_control(control, frame.data());
  wire::seal_control(frame.data(), frame.size() - wire::kControlCheckBytes);
  return frame;
}

// ---- exact sessions ----

inline constexpr size_t kExactChunk = 256;  // elements of 4 bytes

inline LoneOptions exact_session(int slots = 8) {
  LoneOptions options;
  options.slots = slots;
  options.exact = true;
  return options;
}

inline std::vector<int32_t> counting(size_t n) {
  std::vector<int32_t> tensor(n);
  std::iota(tensor.begin(), tensor.end(), -7);
  return tensor;
}

inline Collective exact_sum(std::vector<int32_t>& tensor) {
  return in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
}

}  // namespace switchml::testing
