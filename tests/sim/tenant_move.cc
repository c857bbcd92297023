// The switch is lost, or is to be left: the ranks stop, hand each other the results that some have and others lack, and
// go on in a new session where they stopped. As failover/failover.h does it, with the same plan; the new session is on
// a switch again, and the way between the ranks, a store, is taken to be safe.
#include <algorithm>

#include "slots/resync_plan.h"
#include "tenant.h"

namespace switchml::sim {

// Ranks do it one after the other, while frames of the old session, or already of the new one, are under way.
void Tenant::stagger() {
  move_ = move_ == Move::kNone ? Move::kSuspending : Move::kResuming;
  lost_ = false;
  turn_at_.clear();
  for (size_t w = 0; w < ranks_.size(); ++w) turn_at_.push_back(record_->now() + microseconds(random_.below(20000)));
}

void Tenant::begin_move() {
  record_->count(Fault::moves);
  record_->note("job" + std::to_string(options_.number) + " moves");
  accepted_.assign(ranks_.size(), {});
  stagger();
}

void Tenant::step_move(Time now) {
  if (move_ == Move::kNone && lost_ && fails_over_) begin_move();
  if (move_ == Move::kSuspending) suspend_due(now);
  if (move_ == Move::kOpening) send_open(now);
  if (move_ == Move::kJoining) send_joins(now);
  if (move_ == Move::kResuming) resume_due(now);
}

void Tenant::suspend_due(Time now) {
  for (size_t w = 0; w < ranks_.size(); ++w) {
    if (now < turn_at_[w]) continue;
    turn_at_[w] = kNever;
    accepted_[w] = ranks_[w]->suspend();
  }
  if (std::any_of(turn_at_.begin(), turn_at_.end(), [](Time at) { return at != kNever; })) return;
  catch_up();
  reopen();
}

void Tenant::catch_up() {
  const ResyncPlan plan(accepted_);
  if (!plan.possible()) return record_->broken(Rule::kStream, "ranks are more than one use of a slot apart");
  for (int holder = 0; holder < options_.workers; ++holder) {
    for (const int slot : plan.gives(holder)) {
      const auto frame = ranks_[static_cast<size_t>(holder)]->last_result(slot);
      for (int taker = 0; taker < options_.workers; ++taker) {
        if (!plan.lacks(taker, slot)) continue;
        record_->count(Fault::handed_over);
        ranks_[static_cast<size_t>(taker)]->supply(frame);
      }
    }
  }
}

void Tenant::resume_due(Time now) {
  Route route = session_;
  for (size_t w = 0; w < ranks_.size(); ++w) {
    if (now < turn_at_[w]) continue;
    turn_at_[w] = kNever;
    route.switch_endpoint = endpoint_of(switch_of(static_cast<int>(w)));
    ranks_[w]->resume(route);
  }
  const bool all = std::all_of(turn_at_.begin(), turn_at_.end(), [](Time at) { return at == kNever; });
  if (all) move_ = Move::kNone;
}

Time Tenant::next_of_move() const {
  Time next = lost_ && fails_over_ && move_ == Move::kNone ? Time{} : kNever;
  if (move_ == Move::kSuspending || move_ == Move::kResuming)
    next = *std::min_element(turn_at_.begin(), turn_at_.end());
  if (move_ == Move::kOpening) next = open_.again;
  for (const Asked& join : joins_) {
    if (move_ == Move::kJoining && !join.answered) next = std::min(next, join.again);
  }
  return next;
}

}  // namespace switchml::sim
