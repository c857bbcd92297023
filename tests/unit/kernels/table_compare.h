// Compares a table of kernels with another bit for bit: all functions, lengths 0..300, misaligned buffers, special
// values. Free of gtest, so that a program for another processor can use it under an emulator (neon_check.cc).
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "integer/block_exponent.h"
#include "kernels/kernels.h"

namespace switchml::testing {

inline constexpr size_t kLongest = 300;
inline constexpr uint8_t kGuard = 0xa5;
inline constexpr const char* kFloatNames[4] = {"float32", "float16", "bfloat16", "float64"};
inline constexpr const char* kIntegerNames[4] = {"int32", "int8", "uint8", "int16"};
inline constexpr size_t kFloatBytes[4] = {4, 2, 2, 8};
inline constexpr size_t kIntegerBytes[4] = {4, 1, 1, 2};

using Random = std::mt19937_64;

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Bytes that begin at an address of the wanted misalignment, with guards before and behind.
class Buffer {
 public:
  Buffer(size_t size, size_t misalignment, uint8_t fill = kGuard)
      : memory_(size + 2 * kMargin + 64, fill), begin_(kMargin + misalignment), size_(size) {
    begin_ += 64 - reinterpret_cast<uintptr_t>(memory_.data() + kMargin) % 64;
  }
  uint8_t* data() { return memory_.data() + begin_; }
  const uint8_t* data() const { return memory_.data() + begin_; }
  size_t size() const { return size_; }
  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + size_) && memory_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kMargin = 128;  // more than any vector
  std::vector<uint8_t> memory_;
  size_t begin_;
  size_t size_;
};

/// fp32 patterns around every boundary of the conversions: NaNs with payloads, infinities, subnormals, ties, limits.
inline uint32_t special_float(Random& random) {
  static constexpr uint32_t kPatterns[] = {
      0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff,
      0x33000000, 0x33000001, 0x33800000, 0x387fe000, 0x387ff000, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000,
      0x3f000000, 0x3f800000, 0x3fc00000, 0x40200000, 0x4b000000, 0x4effffff, 0x4f000000, 0x4f000001, 0x7f7f8000};
  const uint32_t sign = static_cast<uint32_t>(random() & 1U) << 31;
  return sign | kPatterns[random() % (sizeof(kPatterns) / sizeof(kPatterns[0]))];
}

inline uint32_t half_integer(Random& random) {
  return bits_of(static_cast<float>(static_cast<int>(random() % 4001) - 2000) + 0.5F);
}

/// One fp32 pattern; `flavour` 0..4 sets what dominates.
inline uint32_t any_float(Random& random, int flavour) {
  const auto bits = static_cast<uint32_t>(random());
  switch (flavour) {
    case 0: return bits;
    case 1: return special_float(random);
    case 2: return half_integer(random);
    case 3: return bits & 0x807fffffU;                                   // subnormals
    default: return (bits & 0x807fffffU) | ((100U + bits % 56U) << 23);  // ordinary values
  }
}

inline uint16_t any_half(Random& random, int flavour, int row) {
  const auto bits = static_cast<uint16_t>(random());
  if (flavour == 0) return bits;
  if (row == 2) return static_cast<uint16_t>(any_float(random, flavour) >> 16);
  static constexpr uint16_t kPatterns[] = {0x0000, 0x0001, 0x03ff, 0x0400, 0x7bff,
                                           0x7c00, 0x7c01, 0x7e00, 0x7fff, 0x3c00};
  if (flavour == 1) return static_cast<uint16_t>((bits & 0x8000U) | kPatterns[random() % 10]);
  if (flavour == 3) return bits & 0x83ffU;
  return static_cast<uint16_t>((bits & 0x83ffU) | ((8U + bits % 16U) << 10));
}

inline void fill_floats(Buffer& buffer, int row, int flavour, Random& random) {
  for (size_t at = 0; at + kFloatBytes[row] <= buffer.size(); at += kFloatBytes[row]) {
    if (row == 0) {
      const uint32_t bits = any_float(random, flavour);
      std::memcpy(buffer.data() + at, &bits, sizeof(bits));
    } else {
      const uint16_t bits = any_half(random, flavour, row);
      std::memcpy(buffer.data() + at, &bits, sizeof(bits));
    }
  }
}

/// Terms of n sums: exponents near each other or anywhere, few bits or all, ties, terms that cancel, replicas.
inline void fill_terms(std::vector<Buffer>& terms, int row, size_t n, Random& random) {
  static constexpr int kFraction[4] = {23, 10, 7, 52};
  const size_t size = kFloatBytes[row];
  const int fraction = kFraction[row];
  const uint64_t infinite = (uint64_t{1} << (8 * size - 1 - static_cast<size_t>(fraction))) - 1;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t span = random() % 8 == 0 ? infinite + 1 : 1 + random() % (infinite / 3);
    const uint64_t lowest = random() % (infinite + 2 - span);
    const uint64_t kind = random() % 8;
    for (size_t s = 0; s < terms.size(); ++s) {
      uint64_t bits = random() & ((uint64_t{1} << fraction) - 1);
      if (kind == 0) bits &= 3;                               // near powers of two
      if (kind == 1) bits &= ~uint64_t{0} << (fraction / 2);  // few bits
      bits |= (lowest + random() % span) << fraction;
      if (random() % 16 == 0) bits = 0;
      bits |= (random() & 1) << (8 * size - 1);
      uint8_t* at = terms[s].data() + i * size;
      std::memcpy(at, &bits, size);
      if (s > 0 && (kind == 2 || (kind == 3 && s % 2 == 1))) std::memcpy(at, terms[s - 1].data() + i * size, size);
      if (s > 0 && kind == 3 && s % 2 == 1) at[size - 1] ^= 0x80;
    }
  }
}

/// Words of every magnitude, so that conversions see exact values, ties and roundings alike.
inline void fill_words(Buffer& buffer, Random& random) {
  for (size_t at = 0; at + 4 <= buffer.size(); at += 4) {
    const auto value = static_cast<int32_t>(random()) >> (random() % 32);
    const uint32_t word = __builtin_bswap32(static_cast<uint32_t>(value));
    std::memcpy(buffer.data() + at, &word, sizeof(word));
  }
}

inline Scale any_scale(Random& random) {
  switch (random() % 4) {
    case 0: return {};
    case 1: return power_of_two(static_cast<int>(random() % 507) - 252);
    case 2: return quantize_scale(static_cast<int>(random() % 255), 24 + static_cast<int>(random() % 7));
    default: return dequantize_scale(static_cast<int>(random() % 255), 24 + static_cast<int>(random() % 7));
  }
}

inline float any_divisor(Random& random) {
  return random() % 2 == 0 ? 1.0F : static_cast<float>(1 + random() % kMaxRanks);
}

class TableComparison {
 public:
  TableComparison(const Kernels& truth, const Kernels& other, uint64_t seed)
      : truth_(truth), other_(other), random_(seed) {}

  /// Empty, or the first difference found.
  std::string run() {
    for (size_t n = 0; n <= kLongest && difference_.empty(); ++n) {
      for (int flavour = 0; flavour < kFlavours && difference_.empty(); ++flavour) compare_length(n, flavour);
    }
    return difference_;
  }
  /// All 65,536 patterns of the 16-bit types at once.
  std::string run_all_halves() {
    constexpr size_t kAll = 65536;
    Buffer src(2 * kAll, 0);
    for (size_t i = 0; i < kAll; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(src.data() + 2 * i, &bits, sizeof(bits));
    }
    for (int row = 1; row < 3; ++row) compare_from_floats(row, src, kAll);
    return difference_;
  }

 private:
  static constexpr int kFlavours = 5;

  size_t misalignment() { return random_() % 2 == 0 ? 0 : random_() % 64; }

  void expect(bool same, const std::string& what, size_t n) {
    if (!same && difference_.empty())
      difference_ = std::string(other_.name) + ": " + what + ", length " + std::to_string(n);
  }

  // run_one(table, destination) with both tables into equal buffers; contents and guards must agree.
  template <typename F>
  void compare(const std::string& what, size_t n, size_t bytes, F&& run_one) {
    const size_t offset = misalignment();
    Buffer expected(bytes, offset);
    Buffer found(bytes, offset);
    run_one(truth_, expected.data());
    run_one(other_, found.data());
    expect(std::memcmp(expected.data(), found.data(), bytes) == 0, what, n);
    expect(expected.guards_intact() && found.guards_intact(), what + " writes outside", n);
  }

  void compare_length(size_t n, int flavour) {
    for (int row = 0; row < 3; ++row) {
      Buffer src(n * kFloatBytes[row], misalignment());
      fill_floats(src, row, flavour, random_);
      compare_from_floats(row, src, n);
    }
    for (int row = 0; row < 4 && flavour == 0; ++row) {
      for (const size_t count : {1, 2, 3, 5}) compare_sum(row, count, n);
      const uint64_t chance = random_() % 12;  // many take long
      if (chance < 3) compare_sum(row, 17, n);
      if (chance == 3) compare_sum(row, kMaxSources, n);
    }
    Buffer words(4 * n, misalignment());
    fill_words(words, random_);
    compare_to_floats(words, n);
    compare_integers(words, n);
    compare_words(words, n);
    const size_t bytes = 4 * n - (n > 0 ? random_() % 4 : 0);
    compare("stream", bytes, bytes,
            [&](const Kernels& k, uint8_t* out) { k.copy_non_temporal(words.data(), out, bytes); });
  }

  void compare_ranges(const BlockRange& expected, const BlockRange& found, const std::string& what, size_t n) {
    expect(expected.max_exponent == found.max_exponent, what + " exponent", n);
    expect(expected.least == found.least, what + " least", n);
    expect(expected.has_nonfinite == found.has_nonfinite, what + " nonfinite", n);
  }

  void compare_sum(int row, size_t count, size_t n) {
    const size_t bytes = n * kFloatBytes[row];
    std::vector<Buffer> terms;
    std::vector<const void*> sources;
    for (size_t s = 0; s < count; ++s) terms.emplace_back(bytes, misalignment());
    fill_terms(terms, row, n, random_);
    for (const Buffer& term : terms) sources.push_back(term.data());
    const uint64_t chance = random_() % 4;
    const auto divisor = static_cast<uint32_t>(chance < 2 ? 1 : chance == 2 ? count : 1 + random_() % kMaxRanks);
    compare("exact sum " + std::string(kFloatNames[row]) + " of " + std::to_string(count) + ", divided by " +
                std::to_string(divisor),
            n, bytes,
            [&](const Kernels& k, uint8_t* out) { k.exact_sum[row](sources.data(), count, out, n, divisor); });
  }

  void compare_from_floats(int row, const Buffer& src, size_t n) {
    const std::string type = kFloatNames[row];
    const BlockRange expected = truth_.range[row](src.data(), n);
    compare_ranges(expected, other_.range[row](src.data(), n), "range " + type, n);
    const Scale scales[] = {any_scale(random_), {}, quantize_scale(expected.max_exponent, 24)};
    for (const Scale& scale : scales) {
      compare("quantize " + type, n, 4 * n,
              [&](const Kernels& k, uint8_t* out) { k.quantize[row](src.data(), out, n, scale); });
    }
    compare("classify " + type, n, 4 * n, [&](const Kernels& k, uint8_t* out) { k.classify[row](src.data(), out, n); });
    if (row > 0) {
      compare("widen " + type, n, 4 * n,
              [&](const Kernels& k, uint8_t* out) { k.widen_half[row - 1](src.data(), out, n); });
    }
    for (const bool minimum : {false, true}) {
      compare("order " + type, n, 4 * n,
              [&](const Kernels& k, uint8_t* out) { k.order[row](src.data(), out, n, minimum); });
    }
  }

  void compare_to_floats(const Buffer& words, size_t n) {
    for (int row = 0; row < 3; ++row) {
      const std::string type = kFloatNames[row];
      const size_t bytes = n * kFloatBytes[row];
      const Scale scale = any_scale(random_);
      // Scales at which the results lie around the smallest and largest values of fp16.
      const Scale near_limits = power_of_two(-40 + static_cast<int>(random_() % 32));
      const float divisor = any_divisor(random_);
      compare("dequantize " + type, n, bytes,
              [&](const Kernels& k, uint8_t* out) { k.dequantize[row](words.data(), out, n, scale, divisor); });
      compare("dequantize " + type, n, bytes,
              [&](const Kernels& k, uint8_t* out) { k.dequantize[row](words.data(), out, n, near_limits, divisor); });
      for (const bool minimum : {false, true}) {
        compare("unorder " + type, n, bytes,
                [&](const Kernels& k, uint8_t* out) { k.unorder[row](words.data(), out, n, minimum); });
      }
    }
  }

  void compare_integers(const Buffer& words, size_t n) {
    for (int row = 0; row < 4; ++row) {
      for (const bool complement : {false, true}) {
        compare(std::string("widen ") + kIntegerNames[row], n, 4 * n,
                [&](const Kernels& k, uint8_t* out) { k.widen[row](words.data(), out, n, complement); });
        compare(std::string("narrow ") + kIntegerNames[row], n, n * kIntegerBytes[row],
                [&](const Kernels& k, uint8_t* out) { k.narrow[row](words.data(), out, n, complement); });
      }
    }
    const float scale = random_() % 8 == 0 ? std::numeric_limits<float>::quiet_NaN() : any_scale(random_).first;
    compare("scale int8", n, 4 * n, [&](const Kernels& k, uint8_t* out) { k.scale_int8(words.data(), out, n, scale); });
    const size_t wide = n / kInt64Words;
    compare("split64", n / 2, 4 * kInt64Words * (n / 2),
            [&](const Kernels& k, uint8_t* out) { k.split64(words.data(), out, n / 2); });
    compare("join64", wide, 8 * wide, [&](const Kernels& k, uint8_t* out) { k.join64(words.data(), out, wide); });
  }

  void compare_words(const Buffer& words, size_t n) {
    const size_t digits = n - n % 3 / 2;  // also odd ones
    compare("pack digits", digits, 4 * ((digits + 1) / 2),
            [&](const Kernels& k, uint8_t* out) { k.pack_digits(words.data(), out, digits); });
    compare("unpack digits", digits, 4 * digits,
            [&](const Kernels& k, uint8_t* out) { k.unpack_digits(words.data(), out, digits); });
    std::vector<uint32_t> coefficients(n + 1);
    for (uint32_t& c : coefficients) c = static_cast<uint32_t>(random_());
    expect(truth_.dot(words.data(), coefficients.data() + 1, n) == other_.dot(words.data(), coefficients.data() + 1, n),
           "dot", n);
    Buffer start(4 * n, 0);
    fill_words(start, random_);
    compare_accumulator("store", n, start, [&](const Kernels& k, int32_t* a) { k.store(a, words.data(), n); });
    compare_accumulator("add", n, start, [&](const Kernels& k, int32_t* a) { k.add(a, words.data(), n); });
    compare_accumulator("max", n, start, [&](const Kernels& k, int32_t* a) { k.max(a, words.data(), n); });
    const auto* accumulators = reinterpret_cast<const int32_t*>(start.data());
    compare("load", n, 4 * n, [&](const Kernels& k, uint8_t* out) { k.load(accumulators, out, n); });
  }

  template <typename F>
  void compare_accumulator(const std::string& what, size_t n, const Buffer& start, F&& run_one) {
    Buffer expected(4 * n, 0);
    Buffer found(4 * n, 0);
    std::memcpy(expected.data(), start.data(), 4 * n);
    std::memcpy(found.data(), start.data(), 4 * n);
    run_one(truth_, reinterpret_cast<int32_t*>(expected.data()));
    run_one(other_, reinterpret_cast<int32_t*>(found.data()));
    expect(std::memcmp(expected.data(), found.data(), 4 * n) == 0, what, n);
    expect(expected.guards_intact() && found.guards_intact(), what + " writes outside", n);
  }

  const Kernels& truth_;
  const Kernels& other_;
  Random random_;
  std::string difference_;
};

}  // namespace switchml::testing
