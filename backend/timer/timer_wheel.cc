#include "timer/timer_wheel.h"

#include <algorithm>

#include "base/assert.h"

namespace switchml {

TimerWheel::TimerWheel(int count, Duration tick, int buckets, Time now)
    : tick_(tick), mask_(buckets - 1), current_(0), heads_(static_cast<size_t>(buckets), -1) {
  SWITCHML_ASSERT(count >= 0 && tick > Duration(0));
  SWITCHML_ASSERT(buckets > 0 && (buckets & mask_) == 0);
  timers_.resize(static_cast<size_t>(count));
  due_.reserve(static_cast<size_t>(count));
  current_ = tick_of(now);
}

void TimerWheel::link(int id, int64_t tick) {
  Timer& timer = timers_[static_cast<size_t>(id)];
  timer.bucket = static_cast<int>(tick & mask_);
  int& head = heads_[static_cast<size_t>(timer.bucket)];
  timer.previous = -1;
  timer.next = head;
  if (head >= 0) timers_[static_cast<size_t>(head)].previous = id;
  head = id;
  ++armed_;
}

void TimerWheel::unlink(int id) {
  Timer& timer = timers_[static_cast<size_t>(id)];
  if (timer.previous >= 0) {
    timers_[static_cast<size_t>(timer.previous)].next = timer.next;
  } else {
    heads_[static_cast<size_t>(timer.bucket)] = timer.next;
  }
  if (timer.next >= 0) timers_[static_cast<size_t>(timer.next)].previous = timer.previous;
  timer.bucket = kIdle;
  --armed_;
}

void TimerWheel::arm(int id, Time deadline) {
  cancel(id);
  timers_[static_cast<size_t>(id)].deadline = deadline;
  link(id, std::max(tick_of(deadline), current_));
}

void TimerWheel::cancel(int id) {
  SWITCHML_ASSERT(id >= 0 && static_cast<size_t>(id) < timers_.size());
  Timer& timer = timers_[static_cast<size_t>(id)];
  if (timer.bucket >= 0) unlink(id);
  timer.bucket = kIdle;
}

void TimerWheel::collect_bucket(int bucket, Time now) {
  for (int id = heads_[static_cast<size_t>(bucket)]; id >= 0;) {
    const int next = timers_[static_cast<size_t>(id)].next;
    if (timers_[static_cast<size_t>(id)].deadline <= now) {
      unlink(id);
      timers_[static_cast<size_t>(id)].bucket = kDue;
      due_.push_back(id);
    }
    id = next;
  }
}

void TimerWheel::collect(Time now) {
  const int64_t last = tick_of(now);
  if (last < current_) return;
  // The bucket of `now` itself may hold timers that are due later in this tick: it is looked at again next time.
  const int64_t turns = std::min<int64_t>(last - current_, mask_);
  for (int64_t tick = last - turns; tick <= last && armed_ > 0; ++tick) {
    collect_bucket(static_cast<int>(tick & mask_), now);
  }
  current_ = last;
}

Time TimerWheel::next_deadline() const {
  if (armed_ == 0) return kNever;
  for (int64_t tick = current_; tick <= current_ + mask_; ++tick) {
    Time earliest = kNever;
    for (int id = heads_[static_cast<size_t>(tick & mask_)]; id >= 0; id = timers_[static_cast<size_t>(id)].next) {
      earliest = std::min(earliest, timers_[static_cast<size_t>(id)].deadline);
    }
    if (earliest == kNever) continue;
    // A timer of a later turn in this bucket must not hide timers of the next buckets.
    return std::min(earliest, Time(Duration((tick + 1) * tick_.count())));
  }
  return kNever;
}

}  // namespace switchml
