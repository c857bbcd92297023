#include "engine/shares.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace switchml {

Shares::Shares(const std::vector<SessionParameters>& sessions, int shards)
    : native_(sessions.front().native), payload_bytes_(sessions.front().payload_bytes) {
  for (const SessionParameters& session : sessions) {
    SWITCHML_ASSERT(session.native == native_ && session.payload_bytes == payload_bytes_ && session.weight > 0);
    weights_.insert(weights_.end(), static_cast<size_t>(shards), session.weight);
  }
  SWITCHML_ASSERT(native_ || sessions.size() == 1);
  total_ = std::accumulate(weights_.begin(), weights_.end(), uint64_t{0});
}

std::vector<ShardPart> Shares::next(const Collective& collective) {
  const size_t shards = weights_.size();
  const size_t span = elements_per_span(collective.type, payload_bytes_, native_);
  std::vector<ShardPart> parts;
  if (!native_) {
    for (size_t i = 0; i < shards; ++i) {
      parts.push_back({i, shard_part(collective.count, span, static_cast<int>(i), static_cast<int>(shards))});
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
      parts.push_back({shard, {begin, end - begin}});
    }
    begin = end;
  }
  return parts;
}

}  // namespace switchml
