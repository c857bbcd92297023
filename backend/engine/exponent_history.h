// The block exponents that earlier collectives of a shard had, and which of them the next one is likely to have again.
// Pure state machine: no I/O, no clock, no allocation after construction.
//
// All ranks must predict alike, so nothing here may depend on when something was known. Collectives enter in the order
// of the stream, which is the same everywhere; exponents are results, which are the same everywhere; and a prediction
// looks only at groups that were taken at least `lag` groups before, which every rank has finished by then, because a
// GroupRing of `lag` buffers has no room for more. A session that moves to another switch keeps its streams and
// results, and with them this; a group that fails is over, and the next one begins with nothing on every rank.
//
// Training repeats a step, so the collective to look at is the one at the same place of an earlier step. Nobody says
// where steps begin. It is found by its surroundings: of the earlier collectives of the same kind the one whose
// predecessors have been of the same kinds as the present one's for the longest stretch, and the latest of those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/limits.h"

namespace switchml {

class ExponentHistory {
 public:
  /// Collectives that are remembered: more than small networks reduce in a step, parameter by parameter.
  static constexpr size_t kRemembered = 256;
  /// Predecessors that are compared.
  static constexpr size_t kContext = 32;

  /// `lag`: groups that can be unfinished at the same time, at least 1.
  explicit ExponentHistory(size_t lag) : lag_(lag), entries_(kRemembered) {}

  /// What is known of a collective that is about to begin.
  struct Prediction {
    const uint8_t* exponents = nullptr;  // one per block, valid until the next open(); null: nothing is known
    bool trusted = false;                // predictions at this place have come true often enough
  };

  /// The next collective of the stream opens. `kind`: a hash of what makes collectives comparable. `group`: the number
  /// of its group among all groups of the stream. `blocks`: of that group, up to kMaxSpeculatedBlocks; 0: a collective
  /// whose exponents are not remembered (`group` is ignored).
  Prediction open(uint64_t kind, uint64_t group, size_t blocks);
  /// The place of the collective that was opened last, for close().
  uint64_t last() const { return opened_ - 1; }
  /// Its exponents are known, as many as it has blocks; `fits`: those predicted would have served.
  void close(uint64_t place, const uint8_t* exponents, bool fits);

  size_t memory_bytes() const { return entries_.size() * sizeof(Entry); }

 private:
  struct Entry {
    uint64_t kind = 0;
    uint64_t group = 0;
    size_t blocks = 0;
    bool predicted = false;
    uint8_t trust = 0;  // 0 to kMostTrust; before close() that of the place which the prediction came from
    std::array<uint8_t, kMaxSpeculatedBlocks> exponents{};
  };
  static constexpr uint8_t kMostTrust = 3;
  static constexpr uint8_t kEnoughTrust = 2;

  Entry& at(uint64_t place) { return entries_[place % kRemembered]; }
  uint64_t oldest() const { return opened_ < kRemembered ? 0 : opened_ - kRemembered; }
  const Entry* find(uint64_t kind, uint64_t group, size_t blocks);
  size_t common_context(uint64_t place);

  size_t lag_;
  uint64_t opened_ = 0;  // collectives so far; the number of one is its place
  std::vector<Entry> entries_;
};

}  // namespace switchml
