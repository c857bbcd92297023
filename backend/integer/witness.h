// The witness: one 32-bit word per packet by which each worker sees that a sum is the sum it should be.
//
// Worker v sends witness = f_v * mask + sum_i k_i * q_i (mod 2^32) beside its words q_i; the switch adds witnesses as
// it adds words. Of n contributions with result words R_i the receiver expects (f_0 + ... + f_(n-1)) * mask + sum_i k_i
// * R_i, because the witness is linear. k_i and f_v are odd and secret, mask is a keyed hash of all that the ranks must
// agree about (MaskInput).
//
// Detected errors, with d_i the error of result word i modulo 2^32, e that of the witness word:
// - an error in one word only (e = 0): always. k_i is odd, so k_i * d_i = 0 only where d_i = 0. Likewise e alone.
// - errors in several words: they pass if sum_i k_i * d_i = e. With 2^t the largest power of two that divides all d_i,
//   that is a chance of about 2^-(31-t) over the secret. The weak end: errors that consist of top bits only (t = 31)
//   pass if their number is even, whatever the secret. Neither a lost, repeated, stale nor foreign contribution looks
//   like that.
// - a contribution missing, counted twice (even if another is missing instead) or replaced by a stale one: about 2^-30
//   pass, even where all the words are zero.
// - ranks that disagree about any field of MaskInput: about 2^-32 pass.
// It is an integrity check and not a signature: all ranks share the secret, and an attacker that sees and alters many
// packets may try.
//
// Only sums have it. A maximum is not linear: its witness word is f_v * mask alone, and its words are checked less: a
// result is never below a worker's own word; and words that are small values carry a check of their own (guard()),
// because a maximum is one of the contributed words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/siphash.h"
#include "format/call_mask.h"

namespace switchml {

/// Immutable after construction, so thread-safe; only the constructor allocates.
class Witness {
 public:
  /// `secret` is shared by the ranks of a job and never sent to the switch. `max_words`: words of the largest chunk.
  Witness(uint64_t secret_low, uint64_t secret_high, size_t max_words);

  /// sum_i k_i * word_i (mod 2^32) over n words in network byte order. Precondition: n <= max_words.
  uint32_t sum(const uint8_t* words, size_t n) const;

  /// Worker `worker`'s witness of its words. Precondition: 0 <= worker < kMaxWorkers. [WIT-3]
  uint32_t contribution(int worker, uint32_t mask, const uint8_t* words, size_t n) const {
    return factors_[static_cast<size_t>(worker)] * mask + sum(words, n);
  }

  /// Whether `received` is the witness of a sum of workers 0..workers-1 with this mask and these result words. [WIT-5]
  bool check(uint32_t received, int workers, uint32_t mask, const uint8_t* words, size_t n) const {
    return received == factor_sums_[static_cast<size_t>(workers)] * mask + sum(words, n);
  }

  /// Makes n words, each a value from 0 to 255 in network byte order, into guarded ones: value * 2^23 + a keyed check
  /// of value, position and mask. They compare as their values do, and the maximum of guarded words is one of them. A
  /// word that was altered passes intact() with a chance of about 2^-22. Precondition: n <= max_words. [MAX-2]
  void guard(uint8_t* words, size_t n, uint32_t mask) const;
  /// Whether guard() makes each of n words of some value, at its position and with this mask. [MAX-3]
  bool intact(const uint8_t* words, size_t n, uint32_t mask) const;
  static constexpr uint32_t guarded_value(uint32_t word) { return word >> kCheckBits; }

  size_t max_words() const { return max_words_; }

 private:
  static constexpr int kCheckBits = 23;
  uint32_t guarded(uint32_t value, size_t position, uint32_t mask) const;
  static constexpr size_t kBlockWords = 256;

  SipKey key_;
  size_t max_words_;
  // k of word b * 256 + j is block_[b] * within_[j]: 1 KiB of coefficients stays in the nearest cache.
  std::vector<uint32_t> within_;
  std::vector<uint32_t> block_;
  std::vector<uint32_t> factors_;      // Worker -> factor of the mask.
  std::vector<uint32_t> factor_sums_;  // n -> sum of the factors of workers 0..n-1.
};

}  // namespace switchml
