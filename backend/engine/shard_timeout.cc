// What happens when nothing happens: retransmission, deadlines, probes, leases.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "engine/shard.h"

namespace switchml {

namespace {
// A card tells of a broken pair only when it is asked.
constexpr Duration kLookInterval = milliseconds(100);
}  // namespace

void Shard::expire(Time now) {
  if (!status_.ok()) return;
  if (suspended_) {
    check_deadline(now);
    return;
  }
  retransmitter_.sweep(now, [this, now](int index) {
    counters_.timeouts.add(1);
    if (retransmitter_.on_timeout(index, now)) ask_again(index, now);
  });
  flush();
  check_deadline(now);
  if (status_.ok()) check_liveness(now);
  if (status_.ok() && !suspended_ && uses_card(session_.switch_endpoint.carrier)) meet_again(now);
  if (status_.ok() && !suspended_ && liveness_.is_keep_alive_due(now)) {
    introduce_if_unknown(now);
    send(liveness_.keep_alive(now));
  }
}

// What was on its way to a switch that the transport knows no more is lost. [RDMA-3]
void Shard::meet_again(Time now) {
  next_look_ = now + kLookInterval;
  if (transport().queue_pairs()->is_connected(session_.switch_endpoint) || !liveness_.is_meeting_due(now)) return;
  if (introduce(now)) send(liveness_.keep_alive(now));
}

// What goes to a switch that the transport does not know goes by packets, and so would a join, which is refused.
// [RDMA-2, JOIN-2]
void Shard::introduce_if_unknown(Time now) {
  const bool is_met =
      !uses_card(session_.switch_endpoint.carrier) || transport().queue_pairs()->is_connected(session_.switch_endpoint);
  if (!is_met) introduce(now);
}

bool Shard::introduce(Time now) {
  const auto own = transport().queue_pairs()->queue_pair_for(session_.switch_endpoint);
  if (own.ok()) liveness_.meet(own.value());
  if (!own.ok()) liveness_.on_no_pair(own.status().message(), now);
  return own.ok();
}

void Shard::repeat_all(Time now) {
  lanes_.for_each_open([this, now](InFlight& flight) { transmit(flight, now); });
  flush();
}

void Shard::check_deadline(Time now) {
  if (const Task* task = tasks_.overdue(now)) {
    const Collective& collective = task->collective();
    const std::string missing =
        collective.is_ready(collective.count) ? missing_text(now) : "this rank's own input is not ready";
    fail(Status(Code::kTimeout, task->describe() + " did not complete before its timeout passed: " + missing));
  }
}

void Shard::check_liveness(Time now) {
  if (!lanes_.any_in_flight()) return;
  if (liveness_.is_socket_error_due(now)) {
    const std::string error = transport().take_error();
    liveness_.on_socket_error(error, !error.empty() && transport().take_refusal(), now);
  }
  if (const Status lost = liveness_.verdict(now); !lost.ok()) return give_up_switch(lost);
  if (!liveness_.is_probe_due(now)) return;
  if (liveness_.is_silent()) judge_repeats(false);
  if (liveness_.is_slow(std::min<Duration>(SlowWarning::kShown, options_.slow.after), now)) warn_of_slowness(now);
  send(liveness_.probe(earliest_use(), now));
  if (const int index = retransmitter_.next_in_turn(); index >= 0) {
    ask_again(index, now);
    flush();
  }
}

// Why these chunks were sent again only a switch can say: they were lost, or others' were missing.
void Shard::judge_repeats(bool waited) {
  (waited ? counters_.repeats_waiting : counters_.retransmissions).add(std::exchange(unjudged_, 0));
}

void Shard::warn_of_slowness(Time now) {
  Task* task = tasks_.oldest_unfinished();
  if (task == nullptr) return;
  const SlowWarning& slow = options_.slow;
  const SwitchLiveness::Use use = earliest_use();
  if (slow.show) slow.show(task->collective(), {use.seq, use.slot, missing_text(now)});
  if (!slow.tell || !liveness_.is_slow(slow.after, now) || std::exchange(task->is_slow, true)) return;
  slow.tell(task->collective(), missing_text(now));
}

// All wait for the earliest collective; some lanes may be ahead of it.
SwitchLiveness::Use Shard::earliest_use() {
  const InFlight* flight = nullptr;
  for (const Lane& lane : lanes_) {
    const InFlight* first = lanes_.oldest(lane);
    if (flight == nullptr || (first != nullptr && first->task->serial < flight->task->serial)) flight = first;
  }
  SWITCHML_ASSERT(flight != nullptr);
  return {flight->slot, flight->seq};
}

}  // namespace switchml
