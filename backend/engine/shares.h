// Which elements of a collective each shard of an engine takes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "slots/chunk_plan.h"

namespace switchml {

/// What one shard takes of a collective.
struct ShardPart {
  size_t shard = 0;
  ElementRange range;
  size_t chunk_bytes = 0;  // Shares::chunk_bytes()
};

class Shares {
 public:
  /// `sessions`: of one payload, each with `shards` shards of this engine and its weight; all exact, or none.
  Shares(const std::vector<SessionParameters>& sessions, int shards);

  /// The shards that take part in the next collective, and with what; shard number s of session a is a * shards + s.
  /// Integers: all of them, in parts in proportion to the weights. Exact: in proportion to the weights, in whole
  /// chunks. Shards that would take nothing are left out, but the one in turn always takes part, so that ranks that
  /// disagree meet there. A barrier concerns all. All ranks must ask for the same collectives in the same order, for
  /// each stream that was chosen. Of aggregators beside workers, those of one that alone gives or gets more than a
  /// chunk take none of it: its links have enough to carry. And a part that one worker alone gives or gets is its own
  /// aggregators', where all parts are of a similar size and there is a chunk for each shard.
  std::vector<ShardPart> next(const Collective& collective);

  /// From the next collective on: of the sessions, in their order, each 1 to kMaxWeight.
  void set_weights(const std::vector<uint32_t>& weights);

  /// What its chunks hold, the last one excepted. Where they may be smaller than the payload, so small that each shard
  /// has many: the results of the first come while the last ones leave. A function of what ranks agree about.
  size_t chunk_bytes(const Collective& collective) const;

 private:
  size_t total(const Collective& collective) const { return elements_in_all(collective, workers_); }
  /// The same of parts that are their owners' aggregators'.
  size_t chunk_bytes_beside(const Collective& collective) const;
  /// Without regard to partial sums.
  size_t payload_for(const Collective& collective) const;
  size_t chunks_of(const Collective& collective, size_t bytes) const;
  bool are_beside_all() const;
  bool is_divided(const Collective& collective) const;
  std::vector<uint32_t> weights_for(const Collective& collective, size_t chunks) const;
  std::vector<ShardPart> of_integers(const Collective& collective, size_t bytes) const;
  std::vector<ShardPart> by_owner(const Collective& collective, size_t home, size_t bytes) const;

  const bool exact_;
  const int workers_;
  const size_t shards_;
  const size_t payload_bytes_;
  const size_t least_chunk_bytes_;
  const size_t partial_sum_ranks_;
  std::vector<uint32_t> weights_;  // Index: shard.
  std::vector<int> beside_;        // Index: shard. SessionParameters::beside.
  size_t turn_[3] = {};            // Index: StreamChoice. The shard that takes part in any case.
};

}  // namespace switchml
