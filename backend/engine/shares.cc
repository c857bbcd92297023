#include "engine/shares.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace switchml {

namespace {

// With c chunks a shard, a link is idle for about one part in 2c: until the last chunk's result is back.
constexpr size_t kChunksOfTensor = 32;
constexpr size_t kChunksOfPiece = 4;  // others follow at once
constexpr size_t kGrain = 64;         // bytes: a cache line, and whole elements of each type

}  // namespace

Shares::Shares(const std::vector<SessionParameters>& sessions, int shards)
    : native_(sessions.front().native),
      payload_bytes_(sessions.front().payload_bytes),
      least_chunk_bytes_(sessions.front().least_chunk_bytes) {
  for (const SessionParameters& session : sessions) {
    SWITCHML_ASSERT(session.native == native_ && session.payload_bytes == payload_bytes_ && session.weight > 0);
    weights_.insert(weights_.end(), static_cast<size_t>(shards), session.weight);
  }
  SWITCHML_ASSERT(native_ || sessions.size() == 1);
  total_ = std::accumulate(weights_.begin(), weights_.end(), uint64_t{0});
}

size_t Shares::chunk_bytes(const Collective& collective) const {
  if (!native_ || least_chunk_bytes_ == 0 || collective.stream == StreamChoice::kShort) return payload_bytes_;
  const size_t chunks = collective.stream == StreamChoice::kBulk ? kChunksOfPiece : kChunksOfTensor;
  const size_t bytes = collective.count * element_bytes(collective.type) / (weights_.size() * chunks);
  return std::clamp(bytes / kGrain * kGrain, std::min(least_chunk_bytes_, payload_bytes_), payload_bytes_);
}

std::vector<ShardPart> Shares::next(const Collective& collective) {
  const size_t shards = weights_.size();
  const size_t bytes = chunk_bytes(collective);
  const size_t span = elements_per_span(collective.type, bytes, native_);
  std::vector<ShardPart> parts;
  if (!native_) {
    for (size_t i = 0; i < shards; ++i) {
      parts.push_back({i, shard_part(collective.count, span, static_cast<int>(i), static_cast<int>(shards)), bytes});
    }
    return parts;
  }
  size_t& turn = turn_[static_cast<size_t>(collective.stream)];
  const size_t home = std::exchange(turn, (turn + 1) % shards);
  const size_t chunks = (collective.count + span - 1) / span;
  uint64_t weight = 0;
  size_t begin = 0;
  // The last place gets the last chunk, if there is any.
  for (size_t place = 1; place <= shards; ++place) {
    const size_t shard = (home + place) % shards;
    weight += weights_[shard];
    const size_t end = std::min(collective.count, chunks * weight / total_ * span);
    if (end > begin || shard == home || collective.op == ReduceOp::kBarrier) {
      parts.push_back({shard, {begin, end - begin}, bytes});
    }
    begin = end;
  }
  return parts;
}

}  // namespace switchml
