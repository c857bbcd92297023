// Whether one rank writes what others read with cached or with non-temporal stores. Cached ones are faster, until a
// line that another core has read has to be fetched back from it: where cores share no cache that is four times slower
// than non-temporal stores. No interface tells which it is, and a virtual machine may change it at any time, so each
// rank looks at how long its copies take. The bits are the same either way.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.h"
#include "shm/reducer.h"

namespace switchml::shm {

class StoreChoice {
 public:
  /// Copies of fewer bytes tell nothing.
  static constexpr size_t kLeast = 8 * 1024;
  /// Cached stores that take longer are slow: 5 GB/s, between 2.4 and 9 that were measured.
  static constexpr Duration kSlowKiB = nanoseconds(205);
  /// So many copies with non-temporal stores come between two with cached ones.
  static constexpr int kBetween = 64;

  Stores stores() const { return left_ > 0 ? Stores::kNonTemporal : Stores::kCached; }
  /// A copy with stores() has taken so long. One that is slow, or fast, may be chance.
  void took(size_t bytes, Duration time) {
    if (bytes < kLeast) return;
    if (left_ > 0) {
      --left_;
      return;
    }
    const bool is_slow = time > kSlowKiB * static_cast<Duration::rep>(bytes / 1024);
    slow_ = is_slow ? std::min(slow_ + 1, 3) : std::max(slow_ - 1, 0);
    if (slow_ >= 2) left_ = kBetween;
  }

 private:
  int slow_ = 0;  // slow copies less fast ones, 0 to 3
  int left_ = 0;
};

}  // namespace switchml::shm
