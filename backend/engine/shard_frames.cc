// What a shard sends and receives: opens slots in the order of the streams, encodes straight into their frames, sends
// in bursts; judges each result by session, slot, sequence number and contents, and decodes it straight out of its
// frame.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/limits.h"
#include "engine/shard.h"
#include "wire/control.h"

namespace switchml {

namespace {
// A burst goes out when it holds this much, so that the switch works while later chunks are being encoded.
constexpr size_t kBurstBytes = 128 * 1024;
constexpr int kMaxFailedChecks = 3;  // [WIT-7]
}  // namespace

void Shard::pump(Time now) {
  if (!status_.ok() || suspended_) return;
  if (!lanes_.any_in_flight()) liveness_.on_idle(now);
  window_.begin_round();
  for (Lane& lane : lanes_) {  // those of the short stream first [LANE-8]
    while (open_next(lane, now)) {
    }
  }
  window_.end_round();
  flush();
}

// False: the lane has nothing more to send now.
bool Shard::open_next(Lane& lane, Time now) {
  lane.cursor = std::max(lane.cursor, tasks_.first_serial());
  Task* const task = tasks_.at(lane.cursor);
  if (task == nullptr || !lane.pool.can_open()) return false;
  const Format::Next next = format_->next(*task, lane);
  if (next == Format::Next::kNothing) {
    ++lane.cursor;
    // A barrier, or a tensor without elements, may have waited for just this.
    if (lane.has_elements && task->stream == lane.stream) tasks_.on_progress(*task);
    return true;
  }
  if (next == Format::Next::kElements && !window_.allows(lane)) return false;
  const std::optional<Chunk> chunk = format_->take(*task, lane);
  if (!chunk) return false;
  InFlight& flight = lanes_.open(lane, *task, *chunk);
  retransmitter_.on_opened(flight.index);
  format_->encode(flight, transport());
  in_place_ |= flight.has_target;
  transmit(flight, now);
  return true;
}

void Shard::transmit(InFlight& flight, Time now, bool asks) {
  const bool is_repeat = retransmitter_.on_sent(flight.index, now);
  if (is_repeat) {
    if (!asks) counters_.retransmissions.add(1);
    if (asks) ++unjudged_;
    if (asks && liveness_.waits_for_others()) judge_repeats(true);
    flight.frame[wire::kHeaderOffsetFlags] |= wire::kFlagRepeat;  // [LOSS-1, PKT-4]
  }
  liveness_.on_sent(now);
  tx_.push_back(format_->frame_of(flight, is_repeat));
  if (window_.is_on() && !session_.whole_chunks) tx_.back().ecn = Ecn::kCapable;  // [ECN-3]
  tx_bytes_ += tx_.back().size + tx_.back().rest_size;
  if (tx_.size() == kBurst || tx_bytes_ >= kBurstBytes) flush();
}

void Shard::flush() {
  if (tx_.empty()) return;
  const size_t taken = transport().send(tx_.data(), tx_.size());
  // What the kernel did not take counts as lost on the way; the timers bring it back.
  if (taken < tx_.size()) counters_.send_errors.add(1);
  counters_.packets_sent.add(taken);
  for (size_t i = 0; i < taken; ++i) counters_.bytes_sent.add(tx_[i].size + tx_[i].rest_size);
  tx_.clear();
  tx_bytes_ = 0;
}

void Shard::send(const SwitchLiveness::Request& request) {
  if (request.size == 0) return;
  const TxFrame frame{request.bytes.data(), static_cast<uint32_t>(request.size), &session_.switch_endpoint};
  if (transport().send(&frame, 1) == 1) counters_.bytes_sent.add(request.size);
}

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
  if (may_lose_frames(session_.switch_endpoint.carrier) && !link.is_direct()) {
    retransmitter_.repair_gaps([this, now](int index) {
      on_congestion(index, now);
      repeat(index, now);
    });
  }
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
  on_data(frame, now);
}

void Shard::on_data(const RxFrame& frame, Time now) {
  ResultView result;
  switch (format_->parse(frame, &result)) {
    case Format::Parsed::kMalformed: return counters_.results_malformed.add(1);
    case Format::Parsed::kForeign: return counters_.results_foreign.add(1);
    case Format::Parsed::kDamaged: return counters_.results_damaged.add(1);
    case Format::Parsed::kResult: return on_result(result, now);
  }
}

void Shard::on_result(const ResultView& result, Time now) {
  InFlight* flight = awaited(result.slot, result.seq);
  if (flight == nullptr) return;
  switch (format_->judge(*flight, result)) {
    case Format::Verdict::kMalformed: return counters_.results_malformed.add(1);
    case Format::Verdict::kDamaged: return on_damaged(*flight, now);
    case Format::Verdict::kDisagrees: return fail_mismatch(*flight, "");
    case Format::Verdict::kHolds: break;
  }
  accept(*flight, result, now);
  Task& task = *flight->task;
  --task.in_flight;
  flight->task = nullptr;
  format_->decode(task, *flight, result);
  tasks_.on_progress(task);
}

// What waits for this use, or null, and why is counted.
InFlight* Shard::awaited(uint16_t slot, uint32_t seq) {
  const Lane* lane = lanes_.of(slot);
  switch (lane == nullptr ? SlotPool::Verdict::kForeign : lane->pool.judge(slot, seq)) {
    case SlotPool::Verdict::kDuplicate: counters_.results_duplicate.add(1); return nullptr;
    case SlotPool::Verdict::kStale: counters_.results_stale.add(1); return nullptr;  // [SLOT-14]
    case SlotPool::Verdict::kForeign: counters_.results_foreign.add(1); return nullptr;
    case SlotPool::Verdict::kAccepted: break;
  }
  liveness_.on_result();
  return &lanes_.at(*lane, slot);
}

// The slot is free for its next use.
void Shard::accept(InFlight& flight, const ResultView& result, Time now) {
  lanes_.accept(flight);
  if (marked_) on_congestion(flight.index, now);
  if (const auto round_trip = retransmitter_.on_answered(flight.index, now)) {
    coalescing_.sample(*round_trip, now);
    window_.on_answered(*round_trip, now);
  } else {
    window_.on_repeat_answered();
  }
  judge_repeats(false);
  liveness_.on_accepted(lanes_.any_in_flight(), now);
  counters_.chunks_completed.add(1);
  const size_t header = session_.header_bytes();
  kept_.keep(flight.index, result.payload - header, header + result.bytes);
}

void Shard::on_congestion(int index, Time now) {
  if (window_.on_congestion(retransmitter_.last_sent(index), now)) counters_.window_reductions.add(1);
}

// Ask again: the copy that came may have been damaged on its way. If the switch's own copy is wrong, give up.
void Shard::on_damaged(InFlight& flight, Time now) {
  counters_.witness_failures.add(1);
  if (++flight.failed_checks >= kMaxFailedChecks) return fail_mismatch(flight, ", or data was damaged");
  if (suspended_) return;  // resume() sends all that is open
  retransmitter_.on_damaged(flight.index);
  transmit(flight, now);
}

void Shard::fail_mismatch(const InFlight& flight, const char* or_else) {
  fail(Status(Code::kMismatch, "this rank called " + flight.task->describe() + ", and " + format_->disagreement() +
                                   " (slot " + std::to_string(flight.slot) + ", sequence " +
                                   std::to_string(flight.seq) +
                                   "): ranks called with different operations, types or sizes" + or_else));
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
    QueuePairs& pairs = *transport().queue_pairs();  // only a card's link introduces itself
    const bool was_known = pairs.is_connected(session_.switch_endpoint);
    const Status met = pairs.connect(session_.switch_endpoint, *next.introduction);
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
  const Lane* lane = lanes_.of(use.slot);
  SWITCHML_ASSERT(lane != nullptr);
  const InFlight& flight = lanes_.at(*lane, use.slot);
  if (flight.task == nullptr || flight.seq != use.seq) return;
  fail(Status(Code::kUnavailable, flight.task->describe() + " cannot complete: " + missing_text(now)));
}

}  // namespace switchml
