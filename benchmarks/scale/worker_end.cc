#include "worker_end.h"

#include <algorithm>

#include "wire/layout.h"

namespace switchml::scale {

namespace {
// The granularity of a shard's timers.
constexpr Instant kTick = kMillisecond / 2;
}  // namespace

uint8_t* WorkerTransport::allocate(size_t bytes) {
  uint8_t* memory = memory_.allocate(bytes);
  begin_ = memory;
  end_ = memory + bytes;
  return memory;
}

size_t WorkerTransport::send(const TxFrame* frames, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const TxFrame& frame = frames[i];
    const bool stays = frame.data >= begin_ && frame.data < end_ && !frame.may_change;
    Frame* sent =
        stays ? carrier_->frames.lent(frame.data, frame.size) : carrier_->frames.copy_of(frame.data, frame.size);
    carrier_->send(sent, node_, node_at(*frame.to));
  }
  return count;
}

size_t WorkerTransport::receive(RxFrame* frames, size_t) {
  if (arrived == nullptr) return 0;
  frames[0] = {arrived->data, arrived->size, endpoint_of(0)};
  arrived = nullptr;
  return 1;
}

WorkerEnd::WorkerEnd(const WorkerOptions& options, Carrier* carrier) : options_(options), carrier_(carrier) {
  const size_t most = options_.engine.session.payload_bytes + wire::kExactHeaderBytes;
  auto transport = std::make_unique<WorkerTransport>(carrier, options_.node, most);
  transport_ = transport.get();
  const auto on_failure = [this](const Status& status) { wrong_ = status.to_string(); };
  shard_ = std::make_unique<Shard>(0, options_.engine, std::move(transport), carrier->now(), on_failure);
}

void WorkerEnd::start() {
  Collective collective;
  collective.operands()->input = options_.input;
  collective.count = collective.operands()->output.end = options_.elements;
  collective.operands()->output.data = options_.results->output();
  collective.deadline = carrier_->now() + options_.patience;
  collective.done = [this](const Status& status) {
    ended_at_ = carrier_->events.now();
    --carrier_->running;
    if (!status.ok()) wrong_ = status.to_string();
  };
  shard_->submit(std::make_shared<SharedCollective>(std::move(collective), 1), {0, options_.elements});
  step();
}

void WorkerEnd::deliver(Frame* frame) {
  transport_->arrived = frame;
  step();
  check(frame->data, frame->size);
  carrier_->frames.release(frame);
}

void WorkerEnd::on_timer() {
  if (timer_at_ != carrier_->events.now()) return;  // It was set again.
  timer_at_ = kNoInstant;
  step();
}

void WorkerEnd::step() {
  shard_->step(carrier_->now());
  if (!over() && timer_at_ > carrier_->events.now() + kTick) look_again();
}

// Steps each tick while something happens; the wheel knows no deadlines before the next tick.
void WorkerEnd::look_again() {
  const bool idle = timer_at_ == kNoInstant;
  const Instant tick = (carrier_->events.now() / kTick + 1) * kTick;
  const Time next = shard_->next_wakeup();
  if (next == kNever) return;
  timer_at_ = idle ? std::max(tick, instant_of(next)) : tick;
  carrier_->push(EventKind::kTimer, timer_at_, options_.node);
}

void WorkerEnd::check(const uint8_t* frame, size_t size) {
  if (size <= wire::kExactHeaderBytes) return;
  const wire::ExactHeader header = wire::read_exact_header(frame);
  if (header.kind != static_cast<uint8_t>(wire::Kind::kExactResult)) return;
  const LaneSlots lanes = options_.engine.session.lanes_per_shard();
  const bool bulk = header.slot >= lanes.data;
  const size_t lane = static_cast<size_t>(bulk ? lanes.bulk_data : lanes.data);
  const size_t place = static_cast<size_t>(header.slot - (bulk ? lanes.data : 0));
  const size_t chunk = size_t{header.seq - 1} * lane + place;
  const size_t most = options_.engine.session.payload_bytes / sizeof(float);
  const size_t begin = chunk * most;
  if (begin >= options_.elements) return;
  switch (options_.results->check(begin, std::min(most, options_.elements - begin))) {
    case Results::Verdict::kRight: ++right_; break;
    case Results::Verdict::kNotWritten: break;
    case Results::Verdict::kWrong: wrong_ = "the sum of chunk " + std::to_string(chunk) + " is wrong"; break;
  }
}

std::string WorkerEnd::wrong() const {
  if (!wrong_.empty()) return wrong_;
  if (!over()) return "it has not ended";
  const size_t most = options_.engine.session.payload_bytes / sizeof(float);
  const size_t chunks = (options_.elements + most - 1) / most;
  if (right_ == chunks) return {};
  return std::to_string(right_) + " chunks of " + std::to_string(chunks) + " were right";
}

std::vector<uint32_t> WorkerEnd::suspend() {
  shard_->suspend();
  return shard_->accepted();
}

void WorkerEnd::supply(const std::vector<uint8_t>& frame) {
  shard_->supply(frame, carrier_->now());
  check(frame.data(), frame.size());
}

void WorkerEnd::resume(const Route& route) {
  shard_->resume(route, nullptr, carrier_->now());
  step();
}

}  // namespace switchml::scale
