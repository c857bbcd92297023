// From frames to tensors: judge each result by session, slot, sequence number and witness; dequantize straight out of
// the frame.
#include <array>

#include "base/assert.h"
#include "base/limits.h"
#include "engine/shard.h"
#include "wire/control.h"

namespace switchml {

namespace {
constexpr int kMaxWitnessFailures = 3;  // [WIT-7]

// Whether none of n result words is below one's own: a maximum never is.
bool nowhere_below(const uint8_t* result, const uint8_t* own, size_t n) {
  bool below = false;
  for (size_t i = 0; i < n; ++i) {
    const auto theirs = static_cast<int32_t>(wire::detail::load<uint32_t>(result + i * kWordBytes));
    const auto mine = static_cast<int32_t>(wire::detail::load<uint32_t>(own + i * kWordBytes));
    below |= theirs < mine;  // [MAX-1]
  }
  return !below;
}
}  // namespace

bool Shard::receive(Time now) {
  std::array<RxFrame, kBurst> frames;
  Transport& link = transport();
  const size_t count = link.receive(frames.data(), frames.size());
  if (count == 0) return false;
  liveness_.on_received();
  for (size_t i = 0; i < count && status_.ok() && !suspended_; ++i) on_frame(frames[i], now);
  link.release();
  if (suspended_) return true;
  if (!status_.ok()) return false;
  if (may_lose_frames(session_.switch_endpoint.carrier)) repair_gaps(now);
  flush();
  return true;
}

void Shard::on_frame(const RxFrame& frame, Time now) {
  counters_.packets_received.add(1);
  counters_.bytes_received.add(frame.size);
  marked_ = frame.ecn == Ecn::kMarked;
  if (frame.size > 0 && wire::kind_of(frame.data) == static_cast<uint8_t>(wire::Kind::kReply)) {
    on_reply(frame, now);
    return;
  }
  if (session_.native) {
    on_elements(frame, now);
  } else {
    on_words(frame, now);
  }
}

void Shard::on_words(const RxFrame& frame, Time now) {
  wire::DataPacket packet;
  if (wire::parse_data(frame.data, frame.size, wire::Kind::kResult, &packet) != wire::ParseError::kNone ||
      packet.words * kWordBytes > session_.payload_bytes || packet.header.worker != kAllWorkers) {  // [PKT-7]
    counters_.results_malformed.add(1);
  } else if (packet.header.job != session_.job || packet.header.epoch != session_.epoch) {  // [SLOT-14]
    counters_.results_foreign.add(1);
  } else {
    on_result(packet, now);
  }
}

void Shard::on_reply(const RxFrame& frame, Time now) {
  wire::Reply reply;
  if (wire::parse_reply(frame.data, frame.size, &reply) != wire::ParseError::kNone) {
    counters_.results_malformed.add(1);
    return;
  }
  introduce_if_unknown(now);
  const SwitchLiveness::Consequence next = liveness_.on_reply(reply, now);
  if (liveness_.waits_for_others()) judge_repeats(true);
  send(next.request);
  if (next.introduction) {
    const bool was_known = transport().knows(session_.switch_endpoint);
    const Status met = transport().meet(session_.switch_endpoint, *next.introduction);
    if (met.ok()) liveness_.on_pair();
    if (met.ok() && !was_known) repeat_all(now);
    if (!met.ok()) liveness_.on_no_pair(met.message(), now);
  }
  if (!next.lost.ok()) give_up_switch(next.lost);
  if (next.cannot_complete) fail_asked(now);
}

// What waits for a rank that has left, if it still does.
void Shard::fail_asked(Time now) {
  const SwitchLiveness::Use& use = liveness_.asked();
  const Lane& lane = lane_of(use.slot);
  const InFlight& flight = in_flight_[static_cast<size_t>(lane.first_index + lane.pool.index_of(use.slot))];
  if (flight.task == nullptr || flight.seq != use.seq) return;
  fail(Status(Code::kUnavailable, flight.task->describe() + " cannot complete: " + missing_text(now)));
}

void Shard::on_result(const wire::DataPacket& packet, Time now) {
  InFlight* flight = awaited(packet.header.slot, packet.header.seq);
  if (flight == nullptr) return;
  if (!witness_holds(*flight, packet)) {
    on_bad_witness(*flight, now);
    return;
  }
  accept(*flight, packet.payload - wire::kHeaderBytes, wire::kHeaderBytes + packet.words * kWordBytes, now);
  consume(*flight, packet);
}

// What waits for this use, or null, and why is counted.
InFlight* Shard::awaited(uint16_t slot, uint32_t seq) {
  const Lane& lane = lane_of(slot);
  switch (lane.pool.judge(slot, seq)) {
    case SlotPool::Verdict::kDuplicate: counters_.results_duplicate.add(1); return nullptr;
    case SlotPool::Verdict::kStale: counters_.results_stale.add(1); return nullptr;  // [SLOT-14]
    case SlotPool::Verdict::kForeign: counters_.results_foreign.add(1); return nullptr;
    case SlotPool::Verdict::kAccepted: break;
  }
  liveness_.on_result();
  return &in_flight_[static_cast<size_t>(lane.first_index + lane.pool.index_of(slot))];
}

// The slot is free for its next use.
void Shard::accept(InFlight& flight, const uint8_t* frame, size_t size, Time now) {
  lanes_[static_cast<size_t>(flight.lane)].pool.accept(flight.slot, flight.seq);
  if (marked_) on_congestion(flight.index, now);
  if (const auto round_trip = retransmitter_.on_answered(flight.index, now)) {
    coalescing_.sample(*round_trip, now);
    if (window_) window_->on_answered(*round_trip, window_limits_, now);
  } else {
    ++owed_;
  }
  judge_repeats(false);
  liveness_.on_accepted(any_in_flight(), now);
  counters_.chunks_completed.add(1);
  if (options_.keep_results) keep(flight, frame, size);
}

bool Shard::witness_holds(const InFlight& flight, const wire::DataPacket& packet) const {
  const wire::Operation operation = flight.task->codec.operation(flight.stage);
  if (packet.words * kWordBytes != flight.sent_bytes || packet.operation != operation) return false;  // [WIT-6]
  const bool summed = operation == wire::Operation::kSum;
  // [WIT-5]
  if (!witness_.check(packet.header.witness, session_.workers, flight.mask, packet.payload,
                      summed ? flight.words : 0)) {
    return false;
  }
  if (summed) return true;
  if (!nowhere_below(packet.payload, flight.frame + wire::kHeaderBytes, flight.words)) return false;
  return flight.stage != Stage::kCall ||
         (witness_.intact(packet.payload, flight.words, flight.mask) &&
          flight.task->codec.plausible_call(flight.superblock, packet.payload, flight.words));  // [MAX-3]
}

// Ask again: the copy that came may have been damaged on its way. If the switch's own copy is wrong, give up.
void Shard::on_bad_witness(InFlight& flight, Time now) {
  counters_.witness_failures.add(1);
  if (++flight.witness_failures < kMaxWitnessFailures) {
    if (suspended_) return;  // resume() sends all that is open
    retransmitter_.on_damaged(flight.index);
    transmit(flight, now);
    return;
  }
  fail(Status(Code::kMismatch, "this rank called " + flight.task->describe() +
                                   ", and the switch's result is not the sum of " + std::to_string(session_.workers) +
                                   " contributions to that call (slot " + std::to_string(flight.slot) + ", sequence " +
                                   std::to_string(flight.seq) +
                                   "): ranks called with different operations, types or sizes, or data was damaged"));
}

void Shard::consume(InFlight& flight, const wire::DataPacket& packet) {
  Task& task = *flight.task;
  --task.in_flight;
  flight.task = nullptr;
  Superblock* superblock = task.plan.with_exponents() ? ring_of(task).find(task.serial, flight.superblock) : nullptr;
  switch (flight.stage) {
    case Stage::kAnnounced: break;
    case Stage::kCall:
      if (superblock == nullptr) break;
      task.codec.decode_call(packet.payload, flight.words, superblock);
      if (superblock->has_nonfinite) counters_.nonfinite_superblocks.add(1);
      break;
    case Stage::kNonfinite:
      SWITCHML_ASSERT(superblock != nullptr);  // only sums of floats have non-finite chunks
      task.codec.decode_nonfinite(packet.payload, flight.range, superblock);
      ++superblock->nonfinite_done;
      break;
    case Stage::kData:
      task.codec.decode_data(packet.payload, flight.range, superblock);
      counters_.elements_summed_by_switch.add(flight.range.count);
      if (superblock != nullptr && ++superblock->chunks_done == task.plan.chunks_of_superblock(superblock->number)) {
        ring_of(task).finish(superblock);
      }
      break;
  }
  on_task_progress(task);
}

}  // namespace switchml
