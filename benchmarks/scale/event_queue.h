// Events in order of time and, at one time, of their pushes. A ring of narrow buckets has the near future, each sorted
// when its turn comes, and a heap the far one (timers).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

namespace switchml::scale {

/// Virtual time in picoseconds: 100 Gb/s is 80 of them a byte.
using Instant = int64_t;
inline constexpr Instant kNanosecond = 1000;
inline constexpr Instant kMicrosecond = 1000 * kNanosecond;
inline constexpr Instant kMillisecond = 1000 * kMicrosecond;
inline constexpr Instant kNoInstant = std::numeric_limits<Instant>::max();

struct Event {
  Instant at = 0;
  uint64_t order = 0;  // Set by the queue.
  uint32_t kind = 0;   // This and the fields below have the simulation's meaning.
  uint32_t to = 0;
  uint32_t from = 0;
  uint32_t number = 0;
  void* data = nullptr;
};

class EventQueue {
 public:
  EventQueue() : buckets_(kBuckets) {}

  /// Precondition: event.at is not before now().
  void push(Event event) {
    event.order = next_order_++;
    ++size_;
    const int64_t bucket = event.at >> kShift;
    if (bucket >= current_ + kBuckets) {
      far_.push(event);
    } else if (bucket == current_ && sorted_) {
      auto& open = at(current_);
      open.insert(std::upper_bound(open.begin() + static_cast<ptrdiff_t>(next_), open.end(), event, before), event);
    } else {
      put(bucket, event);
    }
  }
  bool empty() const { return size_ == 0; }
  Instant now() const { return now_; }
  uint64_t pushed() const { return next_order_; }

  /// Precondition: !empty().
  Event pop() {
    while (next_ == at(current_).size()) advance();
    if (!sorted_) sort();
    const Event event = at(current_)[next_++];
    now_ = event.at;
    --size_;
    return event;
  }

 private:
  static constexpr int kShift = 15;  // A bucket is 33 ns.
  static constexpr int64_t kBuckets = int64_t{1} << 15;

  static bool before(const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.order < b.order; }
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return before(b, a); }
  };
  std::vector<Event>& at(int64_t bucket) { return buckets_[static_cast<size_t>(bucket & (kBuckets - 1))]; }

  // Reuses the memory of past buckets, so that only the few in use have any.
  void put(int64_t bucket, const Event& event) {
    std::vector<Event>& events = at(bucket);
    if (events.capacity() == 0 && !spare_.empty()) {
      events.swap(spare_.back());
      spare_.pop_back();
    }
    events.push_back(event);
  }
  void sort() {
    std::sort(at(current_).begin(), at(current_).end(), before);
    sorted_ = true;
  }
  void advance() {
    if (at(current_).capacity() > 0) {
      at(current_).clear();
      spare_.emplace_back();
      spare_.back().swap(at(current_));
    }
    near_is_empty() ? current_ = far_.top().at >> kShift : ++current_;
    next_ = 0;
    sorted_ = false;
    while (!far_.empty() && far_.top().at >> kShift < current_ + kBuckets) {
      put(far_.top().at >> kShift, far_.top());
      far_.pop();
    }
  }
  bool near_is_empty() const { return size_ == far_.size(); }

  std::vector<std::vector<Event>> buckets_;
  std::vector<std::vector<Event>> spare_;  // Empty buckets.
  std::priority_queue<Event, std::vector<Event>, Later> far_;
  int64_t current_ = 0;
  size_t next_ = 0;  // Index into the current bucket.
  bool sorted_ = false;
  size_t size_ = 0;
  uint64_t next_order_ = 0;
  Instant now_ = 0;
};

}  // namespace switchml::scale
