// What happens when nothing happens: retransmission, deadlines, probes, leases.
#include <algorithm>
#include <sstream>

#include "base/limits.h"
#include "engine/shard.h"
#include "wire/control.h"

namespace switchml {

namespace {

constexpr Duration kProbeInterval = seconds(1);
constexpr int kProbesInVain = 4;                          // at least, before a silent switch is given up
constexpr Duration kProbeFreshness = milliseconds(2500);  // an older answer says nothing about the present
constexpr Duration kRefusalPatience = seconds(2);
constexpr Duration kComplaintInterval = milliseconds(5);

}  // namespace

void Shard::expire(Time now) {
  if (!status_.ok()) return;
  if (suspended_) {
    check_deadline(now);
    return;
  }
  wheel_.sweep(now, [this, now](int index) { on_timer(index, now); });
  flush();
  check_deadline(now);
  if (status_.ok()) check_liveness(now);
  if (status_.ok() && !suspended_ && now >= next_keep_alive_) keep_alive(now);
}

// Waiting for a slow rank looks like loss. So on expiry only the oldest chunk of a lane is repeated; the others only if
// something that was sent after them has been answered. A lane that waits for a straggler costs one packet per timeout.
void Shard::on_timer(int index, Time now) {
  InFlight& flight = in_flight_[static_cast<size_t>(index)];
  Lane& lane = lanes_[static_cast<size_t>(flight.lane)];
  counters_.timeouts.add(1);
  // What failed its witness is complete at the switch, whatever the oldest waits for.
  if (&flight == oldest(lane) || flight.witness_failures > 0) {
    ++flight.backoff;
    transmit(flight, now);
  } else if (flight.order < lane.answered_order) {
    transmit(flight, now);
  } else {
    wheel_.arm(index, now + rtt_.backed_off(flight.backoff));
  }
}

void Shard::check_deadline(Time now) {
  if (tasks_.empty() || now < earliest_deadline_) return;
  earliest_deadline_ = kNever;
  for (const auto& task : tasks_) {
    if (task->finished) continue;
    if (now >= task->collective().deadline) {
      fail(Status(Code::kTimeout,
                  task->describe() + " did not complete before its timeout passed: " + missing_text(now)));
      return;
    }
    earliest_deadline_ = std::min(earliest_deadline_, task->collective().deadline);
  }
}

std::string Shard::missing_text(Time now) const {
  std::ostringstream text;
  const double silent = stuck_since_ == kNever ? 0.0 : to_seconds(now - stuck_since_);
  if (suspended_ && !waiting_for_.empty()) return waiting_for_;
  if (probe_answered_at_ == kNever || now - probe_answered_at_ > kProbeFreshness) {
    text << "the switch " << session_.switch_name << " has not answered for " << silent << " s";
    if (!refusal_.empty()) text << " (" << refusal_ << ")";
    return text.str();
  }
  std::string missing;
  for (int worker = 0; worker < session_.workers; ++worker) {
    const uint64_t bit = uint64_t{1} << (worker % 64);
    if ((probe_contributed_[worker / 64] & bit) != 0) continue;
    missing += (missing.empty() ? "" : ", ") + session_.name_of(worker);
    if ((probe_joined_[worker / 64] & bit) == 0) missing += " (left the session)";
  }
  if (missing.empty()) {
    text << "the switch " << session_.switch_name << " has every contribution, but its result does not arrive";
  } else {
    text << "no contribution from rank " << missing << " for " << silent
         << " s: is that rank dead, stopped, or did it not call this collective?";
  }
  if (probe_dropped_length_ > 0) {
    text << " (dropped_length of the switch is " << probe_dropped_length_
         << (probe_dropped_length_ == UINT16_MAX ? " or more" : "")
         << ": a host sends bursts as one packet, or other payloads?)";
  }
  return text.str();
}

// Asking is a call into the kernel, so not with every burst.
void Shard::hear_complaints(Time now) {
  if (now < next_complaint_) return;
  next_complaint_ = now + kComplaintInterval;
  const std::string refusal = transport().take_error();
  if (refusal.empty()) return;
  refusal_ = refusal;
  if (transport().take_refusal() && refused_since_ == kNever) refused_since_ = now;
}

void Shard::check_liveness(Time now) {
  if (!any_in_flight()) return;
  hear_complaints(now);
  if (refused_since_ != kNever && now - refused_since_ >= kRefusalPatience) {
    give_up_switch(Status(Code::kUnavailable, "the switch " + session_.switch_name + " is gone: " + refusal_));
    return;
  }
  if (now < next_probe_) return;
  // Questions are counted, not time: a process that was stopped has asked none meanwhile.
  const Duration interval = std::min<Duration>(kProbeInterval, options_.switch_patience / kProbesInVain);
  const bool may_judge =
      !session_.controlled || options_.on_switch_lost != nullptr;  // going on without it costs speed only
  if (unanswered_ >= options_.switch_patience / interval && may_judge) {
    give_up_switch(Status(Code::kUnavailable, missing_text(now)));
    return;
  }
  next_probe_ = now + interval;
  probe();
  repeat_in_turn(now);
}

// The oldest may wait for a rank that failed over a later chunk, one whose result shows that ranks disagree: each must
// get to see it. So with every probe one more chunk is repeated, in rotation.
void Shard::repeat_in_turn(Time now) {
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    turn_ = (turn_ + 1) % in_flight_.size();
    InFlight& flight = in_flight_[turn_];
    if (flight.task == nullptr || &flight == oldest(lanes_[static_cast<size_t>(flight.lane)])) continue;
    transmit(flight, now);
    flush();
    return;
  }
}

void Shard::probe() {
  // What everybody waits for is the earliest collective; some lanes may be ahead of it.
  const InFlight* flight = nullptr;
  for (const Lane& lane : lanes_) {
    const InFlight* first = oldest(lane);
    if (flight == nullptr || (first != nullptr && first->task->serial < flight->task->serial)) flight = first;
  }
  if (flight->slot != probe_slot_ || flight->seq != probe_seq_) left_answers_ = 0;
  probe_slot_ = flight->slot;
  probe_seq_ = flight->seq;
  ++unanswered_;
  probe_request_ = next_request_++;
  uint8_t frame[wire::kMaxControlBytes];
  send_control(frame, wire::build_probe(session_.membership(), flight->slot, flight->seq, probe_request_, frame));
}

void Shard::keep_alive(Time now) {
  next_keep_alive_ = now + session_.renewal();  // [LEASE-5]
  proven_ = false;
  send_join();
}

void Shard::send_join() {
  keep_alive_request_ = next_request_++;
  wire::Membership member = session_.membership();
  member.cookie = cookie_;  // [COOKIE-3]
  uint8_t frame[wire::kMaxControlBytes];
  send_control(frame, wire::build_join(member, index_, keep_alive_request_, frame));
}

// The first one of a session, or the address that the switch sees has changed. Once for each keep-alive.
void Shard::prove_address(uint64_t cookie) {
  cookie_ = cookie;
  if (proven_) return;
  proven_ = true;
  send_join();
}

}  // namespace switchml
