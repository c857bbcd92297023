#include "engine/retransmitter.h"

#include <algorithm>

namespace switchml {

namespace {
constexpr Duration kTimerTick = microseconds(500);
constexpr int kTimerBuckets = 512;
}  // namespace

Retransmitter::Retransmitter(int slots, Duration rto_min, Duration rto_max, Time now)
    : rtt_(rto_min, rto_max), wheel_(slots, kTimerTick, kTimerBuckets, now), chunks_(static_cast<size_t>(slots)) {}

void Retransmitter::add_lane(const SlotPool& pool) {
  const int first = lanes_.empty() ? 0 : lanes_.back().first_index + lanes_.back().pool->size();
  for (int i = 0; i < pool.size(); ++i) chunks_[static_cast<size_t>(first + i)].lane = static_cast<int>(lanes_.size());
  lanes_.push_back({first, &pool});
}

void Retransmitter::on_opened(int index) {
  Chunk& chunk = chunks_[static_cast<size_t>(index)];
  chunk.attempts = 0;
  on_moved(index);
}

bool Retransmitter::on_sent(int index, Time now) {
  Chunk& chunk = chunks_[static_cast<size_t>(index)];
  chunk.order = lane_of(chunk).next_order++;
  chunk.last_sent = now;
  wheel_.arm(index, now + rtt_.backed_off(chunk.backoff));
  return ++chunk.attempts > 1;
}

std::optional<Duration> Retransmitter::on_answered(int index, Time now) {
  wheel_.cancel(index);
  const Chunk& chunk = chunks_[static_cast<size_t>(index)];
  if (chunk.attempts != 1) return std::nullopt;
  Lane& lane = lane_of(chunk);
  lane.answered_order = std::max(lane.answered_order, chunk.order);
  rtt_.sample(now - chunk.last_sent);
  return now - chunk.last_sent;
}

void Retransmitter::on_moved(int index) {
  Chunk& chunk = chunks_[static_cast<size_t>(index)];
  chunk.backoff = 0;
  chunk.has_result = false;
}

void Retransmitter::stop() {
  for (int i = 0; i < static_cast<int>(chunks_.size()); ++i) wheel_.cancel(i);
}

bool Retransmitter::is_oldest(int index) const {
  const Lane& lane = lane_of(chunks_[static_cast<size_t>(index)]);
  return index == lane.first_index + lane.pool->oldest_open();
}

bool Retransmitter::on_timeout(int index, Time now) {
  Chunk& chunk = chunks_[static_cast<size_t>(index)];
  if (is_oldest(index) || chunk.has_result) {
    ++chunk.backoff;
    return true;
  }
  if (chunk.order < lane_of(chunk).answered_order) return true;
  wheel_.arm(index, now + rtt_.backed_off(chunk.backoff));
  return false;
}

int Retransmitter::next_in_turn() {
  for (size_t i = 0; i < chunks_.size(); ++i) {
    turn_ = (turn_ + 1) % static_cast<int>(chunks_.size());
    const Lane& lane = lane_of(chunks_[static_cast<size_t>(turn_)]);
    if (lane.pool->is_open(turn_ - lane.first_index) && !is_oldest(turn_)) return turn_;
  }
  return -1;
}

}  // namespace switchml
