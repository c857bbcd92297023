#include "engine/shares.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "slots/partial_sum_room.h"

namespace switchml {

namespace {

// With c chunks a shard, a link is idle for about one part in 2c: until the last chunk's result is back.
constexpr size_t kChunksOfTensor = 32;
constexpr size_t kChunksOfPiece = 4;  // others follow at once [NCHUNK-3]
constexpr size_t kGrain = 64;         // bytes: a cache line, and whole elements of each type

}  // namespace

Shares::Shares(const std::vector<SessionParameters>& sessions, int shards)
    : exact_(sessions.front().exact),
      workers_(sessions.front().workers),
      shards_(static_cast<size_t>(shards)),
      payload_bytes_(sessions.front().payload_bytes),
      least_chunk_bytes_(sessions.front().least_chunk_bytes),
      partial_sum_ranks_(sessions.front().partial_sum_ranks) {
  for (const SessionParameters& session : sessions) {
    // [SHARE-1]
    SWITCHML_ASSERT(session.exact == exact_ && session.payload_bytes == payload_bytes_ && session.weight > 0);
    weights_.insert(weights_.end(), shards_, session.weight);  // [SHARE-2]
    beside_.insert(beside_.end(), shards_, session.beside);
  }
}

void Shares::set_weights(const std::vector<uint32_t>& weights) {
  SWITCHML_ASSERT(weights.size() * shards_ == weights_.size());
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = weights[i / shards_];
}

size_t Shares::chunk_bytes(const Collective& collective) const {
  const size_t room = chunk_room(collective.op, collective.type, payload_bytes_, partial_sum_ranks_);
  return std::min(payload_for(collective), room);  // [PART-9]
}

// The result of narrow terms stays on its owner's host. Over TCP chunks are long enough. [NSUM-4]
size_t Shares::chunk_bytes_beside(const Collective& collective) const {
  const size_t bytes = chunk_bytes(collective);
  if (collective.op != ReduceOp::kSumToFloat32 || least_chunk_bytes_ > 0) return bytes;
  return std::max(bytes, most_chunk_bytes(collective.type, payload_bytes_, collective.op));
}

size_t Shares::payload_for(const Collective& collective) const {
  // [NCHUNK-4]
  if (!exact_ || least_chunk_bytes_ == 0 || collective.stream == StreamChoice::kShort) return payload_bytes_;
  const size_t chunks = collective.stream == StreamChoice::kBulk ? kChunksOfPiece : kChunksOfTensor;  // [NCHUNK-2]
  const size_t of_tensor = total(collective) * payload_bytes_of_element(collective.op, collective.type);
  const size_t bytes = of_tensor / (weights_.size() * chunks);
  // [NCHUNK-1]
  return std::clamp(bytes / kGrain * kGrain, std::min(least_chunk_bytes_, payload_bytes_), payload_bytes_);
}

size_t Shares::chunks_of(const Collective& collective, size_t bytes) const {
  const size_t span = elements_per_span(collective.type, bytes, exact_, collective.op);
  return (total(collective) + span - 1) / span;
}

std::vector<ShardPart> Shares::next(const Collective& collective) {
  const size_t shards = weights_.size();
  const size_t bytes = chunk_bytes(collective);
  if (!exact_) return of_integers(collective, bytes);
  std::vector<ShardPart> parts;
  size_t& turn = turn_[static_cast<size_t>(collective.stream)];  // [SHARE-7]
  const size_t home = std::exchange(turn, (turn + 1) % shards);  // [SHARE-6]
  if (are_beside_all() && is_divided(collective)) {              // [SHARE-8]
    const size_t longer = chunk_bytes_beside(collective);
    if (chunks_of(collective, longer) >= shards) return by_owner(collective, home, longer);
  }
  const size_t span = elements_per_span(collective.type, bytes, exact_, collective.op);
  const size_t chunks = chunks_of(collective, bytes);
  const std::vector<uint32_t> weights = weights_for(collective, chunks);
  const uint64_t all = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  uint64_t weight = 0;
  size_t begin = 0;
  // The last place gets the last chunk, if there is any.
  for (size_t place = 1; place <= shards; ++place) {
    const size_t shard = (home + place) % shards;  // [SHARE-3]
    weight += weights[shard];
    const size_t end = std::min(total(collective), chunks * weight / all * span);  // [SHARE-4]
    if (end > begin || shard == home || collective.op == ReduceOp::kBarrier) {     // [SHARE-5]
      parts.push_back({shard, {begin, end - begin}, bytes});
    }
    begin = end;
  }
  return parts;
}

std::vector<ShardPart> Shares::of_integers(const Collective& collective, size_t bytes) const {
  const size_t span = elements_per_span(collective.type, bytes, exact_, collective.op);
  const uint64_t all = std::accumulate(weights_.begin(), weights_.end(), uint64_t{0});
  SWITCHML_ASSERT(all > 0);
  const size_t chunks = (collective.count + span - 1) / span;
  std::vector<ShardPart> parts;
  uint64_t weight = 0;
  size_t begin = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weight += weights_[i];
    const size_t end = std::min(collective.count, chunks * weight / all * span);  // [SHARD-2, SHARE-10]
    parts.push_back({i, {begin, end - begin}, bytes});
    begin = end;
  }
  return parts;
}

/// Into pieces or parts, none of which is more than twice as large as a fair one: its owner's links would be the limit.
bool Shares::is_divided(const Collective& collective) const {
  if (has_piece_of_each(collective.movement())) return true;
  const auto* scattered = std::get_if<ReduceScatter>(&collective.kind);
  if (scattered == nullptr) return false;
  size_t largest = 0;
  size_t begin = 0;
  for (const size_t end : scattered->scatter_ends) largest = std::max(largest, end - std::exchange(begin, end));
  return largest <= 2 * (total(collective) / static_cast<size_t>(workers_) + 1);  // [SHARE-8]
}

bool Shares::are_beside_all() const {
  if (beside_.size() != static_cast<size_t>(workers_) * shards_) return false;
  for (size_t i = 0; i < beside_.size(); ++i) {
    if (beside_[i] != static_cast<int>(i / shards_)) return false;
  }
  return true;
}

std::vector<uint32_t> Shares::weights_for(const Collective& collective, size_t chunks) const {
  const bool of_one = !has_piece_of_each(collective.movement());
  const int root = collective.root();
  std::vector<uint32_t> weights = weights_;
  if (!of_one || root < 0 || chunks < 2) return weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (beside_[i] == root) weights[i] = 0;  // [SHARE-9]
  }
  const bool any = std::any_of(weights.begin(), weights.end(), [](uint32_t weight) { return weight > 0; });
  return any ? weights : weights_;
}

std::vector<ShardPart> Shares::by_owner(const Collective& collective, size_t home, size_t bytes) const {
  const size_t span = elements_per_span(collective.type, bytes, exact_, collective.op);
  const auto* scattered = std::get_if<ReduceScatter>(&collective.kind);
  std::vector<ShardPart> parts;
  size_t begin = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const size_t owner = i / shards_;
    const size_t end = scattered == nullptr ? (owner + 1) * collective.count : scattered->scatter_ends[owner];
    const ElementRange part = shard_part(end - begin, span, static_cast<int>(i % shards_), static_cast<int>(shards_));
    if (part.count > 0 || i == home) parts.push_back({i, {begin + part.begin, part.count}, bytes});
    if (i % shards_ + 1 == shards_) begin = end;
  }
  return parts;
}

}  // namespace switchml
