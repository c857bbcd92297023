// What happens when nothing happens: retransmission, deadlines, probes, leases.
#include <algorithm>

#include "engine/shard.h"

namespace switchml {

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
  if (status_.ok() && !suspended_ && liveness_.is_keep_alive_due(now)) send(liveness_.keep_alive(now));
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
  return suspended_ && !waiting_for_.empty() ? waiting_for_ : liveness_.missing_text(now);
}

void Shard::check_liveness(Time now) {
  if (!any_in_flight()) return;
  if (liveness_.is_socket_error_due(now)) {
    const std::string error = transport().take_error();
    liveness_.on_socket_error(error, !error.empty() && transport().take_refusal(), now);
  }
  if (const Status lost = liveness_.verdict(now); !lost.ok()) return give_up_switch(lost);
  if (!liveness_.is_probe_due(now)) return;
  send(liveness_.probe(earliest_use(), now));
  repeat_in_turn(now);
}

// What everybody waits for is the earliest collective; some lanes may be ahead of it.
SwitchLiveness::Use Shard::earliest_use() {
  const InFlight* flight = nullptr;
  for (const Lane& lane : lanes_) {
    const InFlight* first = oldest(lane);
    if (flight == nullptr || (first != nullptr && first->task->serial < flight->task->serial)) flight = first;
  }
  return {flight->slot, flight->seq};
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

}  // namespace switchml
