// Reductions over the ranks of a group without a switch; what a detour is made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace switchml {

/// All ranks make the same calls with the same sizes in the same order. Results are in place, and the same on all ranks
/// to the bit. One thread calls at a time; each call blocks until all ranks have made it or one cannot any more.
class RankReducer {
 public:
  virtual ~RankReducer() = default;
  virtual Status maximum(int64_t* values, size_t count) = 0;
  virtual Status maximum(int32_t* values, size_t count) = 0;
  /// Modulo 2^32.
  virtual Status sum(int32_t* values, size_t count) = 0;
  /// From any thread: a call that blocks, and every later one, returns kAborted.
  virtual void interrupt() = 0;
};

}  // namespace switchml
