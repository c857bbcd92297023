#include "shm/store_choice.h"

#include <algorithm>

namespace switchml::shm {

// The clock is read in order with loads: where the C library takes it from a counter of the processor, it says so.
Duration time_to_read(const std::atomic<uint64_t>& word) {
  const Time begin = monotonic_now();
  static_cast<void>(word.load(std::memory_order_acquire));
  return monotonic_now() - begin;
}

int LatencyScore::after(int score, Duration took) {
  return took >= kSlow ? std::min(kMost, score + 3) : std::max(0, score - 1);
}

void NonTemporalTrial::begin(size_t chunks) {
  is_long_ = chunks >= kLong;
  start_leg(leg_);  // the time between two collectives does not count
}

void NonTemporalTrial::finished(size_t chunks, Time now, bool slow_lines) {
  if (!slow_lines) return forget();
  if (!is_long_) return;
  since_ += chunks;
  if (!is_trying()) {
    if (since_ >= kBetween) start_leg(0);
    return;
  }
  if (skipped_ < kSkipped) {
    skipped_ += chunks;
    began_ = now;
    return;
  }
  timed_ += chunks;
  if (timed_ >= kTimed) end_leg((now - began_) / static_cast<Duration::rep>(timed_));
}

void NonTemporalTrial::forget() {
  best_ = false;
  since_ = kBetween;
  start_leg(-1);
}

void NonTemporalTrial::start_leg(int leg) {
  leg_ = leg;
  skipped_ = timed_ = 0;
}

void NonTemporalTrial::end_leg(Duration each) {
  took_[leg_ % 2] = each;
  const bool compares = leg_ % 2 == 1;
  if (leg_ + 1 < kLegs && (!compares || is_better())) return start_leg(leg_ + 1);
  if (is_better()) best_ = !best_;
  since_ = 0;
  start_leg(-1);
}

// The lines of the other ranks come in turn. The line of the score is shared: it is written only when it changes.
void StoreChoice::time_a_line(uint64_t seq) {
  const int others = board_.shape().ranks - 1;
  if (timer_ == nullptr || others == 0) return;
  const int other = (rank_ + 1 + static_cast<int>(seq % static_cast<uint64_t>(others))) % (others + 1);
  const Duration took = timer_(*board_.probe_line(other, seq));
  std::atomic<int32_t>& score = board_.line_score();
  const int32_t before = score.load(std::memory_order_relaxed);
  const int32_t after = LatencyScore::after(before, took);
  if (after != before) score.store(after, std::memory_order_relaxed);
}

void StoreChoice::on_chunk(size_t index, size_t chunks) {
  if (index == 0) {
    trial_.begin(chunks);
    finished_ = 0;
  }
  ++finished_;
}

void StoreChoice::choose(Time now) {
  if (rank_ != 0 || timer_ == nullptr || finished_ == 0) return;
  slow_lines_ = LatencyScore::is_slow(board_.line_score().load(std::memory_order_relaxed), slow_lines_);
  trial_.finished(finished_, now, slow_lines_);
  finished_ = 0;
  board_.set_stores(trial_.bypasses() ? Stores::kNonTemporal : Stores::kCached);
}

}  // namespace switchml::shm
