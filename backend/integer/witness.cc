#include "integer/witness.h"

#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "format/packed_hash.h"
#include "kernels/kernels.h"

namespace switchml {

namespace {

std::vector<uint32_t> odd_coefficients(const SipKey& key, uint8_t tag, size_t n) {  // [WIT-10]
  std::vector<uint32_t> result(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t hash = PackedHash<9>().put(tag).put(static_cast<uint64_t>(i)).hash(key);
    result[i] = static_cast<uint32_t>(hash) | 1U;
  }
  return result;
}

}  // namespace

Witness::Witness(uint64_t secret_low, uint64_t secret_high, size_t max_words)
    : key_{secret_low, secret_high},
      max_words_(max_words),
      within_(odd_coefficients(key_, kTagWithin, kBlockWords)),
      block_(odd_coefficients(key_, kTagBlock, (max_words + kBlockWords - 1) / kBlockWords)),
      factors_(odd_coefficients(key_, kTagWorker, kMaxWorkers)),  // [WIT-2]
      factor_sums_(1, 0) {
  for (const uint32_t factor : factors_) factor_sums_.push_back(factor_sums_.back() + factor);
}

uint32_t Witness::sum(const uint8_t* words, size_t n) const {
  SWITCHML_ASSERT(n <= max_words_);
  const auto dot = kernels().dot;
  uint32_t total = 0;
  for (size_t block = 0, first = 0; first < n; ++block, first += kBlockWords) {
    const size_t length = n - first < kBlockWords ? n - first : kBlockWords;
    total += block_[block] * dot(words + 4 * first, within_.data(), length);  // [WIT-10]
  }
  return total;
}

uint32_t Witness::guarded(uint32_t value, size_t position, uint32_t mask) const {  // [MAX-2]
  const uint32_t coefficient = block_[position / kBlockWords] * within_[position % kBlockWords];
  const uint32_t check = coefficient * (2 * value + 1) + mask;
  return value << kCheckBits | check >> (32 - kCheckBits);
}

void Witness::guard(uint8_t* words, size_t n, uint32_t mask) const {
  SWITCHML_ASSERT(n <= max_words_);
  for (size_t i = 0; i < n; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, words + i * kWordBytes, kWordBytes);
    word = __builtin_bswap32(guarded(__builtin_bswap32(word), i, mask));
    std::memcpy(words + i * kWordBytes, &word, kWordBytes);
  }
}

bool Witness::intact(const uint8_t* words, size_t n, uint32_t mask) const {
  SWITCHML_ASSERT(n <= max_words_);
  uint32_t difference = 0;
  for (size_t i = 0; i < n; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, words + i * kWordBytes, kWordBytes);
    word = __builtin_bswap32(word);
    difference |= word ^ guarded(guarded_value(word), i, mask);
  }
  return difference == 0;
}

}  // namespace switchml
