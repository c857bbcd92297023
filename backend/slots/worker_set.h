// Bitmap: which workers have contributed to a use of a slot. On a Tofino two registers, one per half; "was my bit set"
// is the register's own output.
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace switchml {

/// A set of workers 0..127.
struct WorkerSet {
  uint64_t low = 0;   // workers 0..63
  uint64_t high = 0;  // workers 64..127
  static_assert(kMaxWorkers <= 128);

  bool test(int worker) const { return ((worker < 64 ? low : high) >> (worker & 63) & 1U) != 0; }
  /// Adds a worker; false if it was in already. Precondition: 0 <= worker < kMaxWorkers.
  bool insert(int worker) {
    uint64_t& half = worker < 64 ? low : high;
    const uint64_t bit = uint64_t{1} << (worker & 63);
    const bool fresh = (half & bit) == 0;
    half |= bit;
    return fresh;
  }
  /// Workers 0..n-1. Precondition: 0 <= n <= 128.
  static WorkerSet first(int n) {
    WorkerSet set;
    set.low = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
    set.high = n >= 128 ? ~uint64_t{0} : n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0;
    return set;
  }
  /// The largest number in the set; -1 if it is empty.
  int highest() const {
    if (high != 0) return 127 - __builtin_clzll(high);
    return low != 0 ? 63 - __builtin_clzll(low) : -1;
  }
  int count() const { return __builtin_popcountll(low) + __builtin_popcountll(high); }
  friend bool operator==(const WorkerSet& a, const WorkerSet& b) { return a.low == b.low && a.high == b.high; }
};

}  // namespace switchml
