// A set of ranks that messages are looked up in with every step, mostly of few of them or none: what it costs does not
// grow with the ranks that a group may have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"

namespace switchml {

/// Ranks 0 ... kMaxRanks - 1. Not thread-safe.
class RankSet {
 public:
  static constexpr size_t kWordBits = 64;

  RankSet() = default;
  RankSet(const RankSet& other) { *this |= other; }
  RankSet& operator=(const RankSet& other) {
    if (this == &other) return *this;
    used_ = 0;
    return *this |= other;
  }

  bool any() const { return used_ != 0; }
  bool operator[](size_t rank) const {
    const size_t word = rank / kWordBits;
    return (used_ >> word & 1) != 0 && (words_[word] >> (rank % kWordBits) & 1) != 0;
  }
  void set(size_t rank) { add(rank / kWordBits, uint64_t{1} << (rank % kWordBits)); }
  void reset(size_t rank) {
    if (!(*this)[rank]) return;
    const size_t word = rank / kWordBits;
    words_[word] &= ~(uint64_t{1} << (rank % kWordBits));
    if (words_[word] == 0) used_ &= ~(uint32_t{1} << word);
  }
  /// Bit i: rank kWordBits * word + i.
  void add(size_t word, uint64_t bits) {
    if (bits == 0) return;
    words_[word] = (used_ >> word & 1) != 0 ? words_[word] | bits : bits;
    used_ |= uint32_t{1} << word;
  }
  RankSet& operator|=(const RankSet& other) {
    for (uint32_t left = other.used_; left != 0; left &= left - 1) {
      const auto word = static_cast<size_t>(__builtin_ctz(left));
      add(word, other.words_[word]);
    }
    return *this;
  }

 private:
  static constexpr size_t kWords = kMaxRanks / kWordBits;
  static_assert(kWords * kWordBits == kMaxRanks && kWords <= 32);

  uint32_t used_ = 0;                   // Bit i: words_[i] has a rank. No other word is read.
  std::array<uint64_t, kWords> words_;  // NOLINT(cppcoreguidelines-pro-type-member-init)
};

}  // namespace switchml
