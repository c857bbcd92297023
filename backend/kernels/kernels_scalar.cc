// The reference: one element after the other, integer operations and single correctly rounded float operations only.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/exact_sum.h"
#include "kernels/float16.h"
#include "kernels/float_bits.h"
#include "kernels/tables.h"
#include "kernels/to_odd.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the kernels swap bytes unconditionally");

namespace switchml {

namespace {

template <typename T>
T load_at(const void* base, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(base) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store_at(void* base, size_t i, T value) {
  std::memcpy(static_cast<uint8_t*>(base) + i * sizeof(T), &value, sizeof(T));
}

uint32_t word_at(const uint8_t* words, size_t i) { return __builtin_bswap32(load_at<uint32_t>(words, i)); }
void put_word(uint8_t* words, size_t i, uint32_t value) { store_at(words, i, __builtin_bswap32(value)); }

// ---- element types: exact conversion to fp32 bits, and back with rounding to nearest even ----

struct Float32 {
  using Raw = uint32_t;
  static constexpr FloatFormat kFormat = FloatFormat::float32();
  static uint32_t to_bits(Raw raw) { return raw; }
  static Raw from_bits(uint32_t bits) { return bits; }
};

struct Float16 {
  using Raw = uint16_t;
  static constexpr FloatFormat kFormat = FloatFormat::float16();
  static uint32_t to_bits(Raw raw) {
    const uint32_t sign = (raw & 0x8000U) << 16;
    const uint32_t exponent = (raw >> 10) & 0x1fU;
    const uint32_t mantissa = raw & 0x3ffU;
    if (exponent == 0x1f) return sign | kInfinityBits | (mantissa << 13);
    if (exponent == 0) return sign | bits_as<uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
    return sign | ((exponent + (127 - 15)) << kMantissaBits) | (mantissa << 13);
  }
  static Raw from_bits(uint32_t bits) { return float16_of(bits); }
};

struct BFloat16 {
  using Raw = uint16_t;
  static constexpr FloatFormat kFormat = FloatFormat::bfloat16();
  static uint32_t to_bits(Raw raw) { return static_cast<uint32_t>(raw) << 16; }
  // Precondition: not a NaN with a payload (the only NaN that kernels make is kQuietNanBits, which stays itself).
  static Raw from_bits(uint32_t bits) { return static_cast<Raw>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16); }
};

struct Float64 {
  using Raw = uint64_t;
  static constexpr FloatFormat kFormat = FloatFormat::float64();
};

template <typename E>
uint32_t element_bits(const void* src, size_t i) {
  return E::to_bits(load_at<typename E::Raw>(src, i));
}

bool is_finite(uint32_t bits) { return (bits & kAbsMask) < static_cast<uint32_t>(kInfinityBits); }

int32_t round_to_int(float value) {
  if (!(value >= -0x1p31F && value < 0x1p31F)) return INT32_MIN;
  return static_cast<int32_t>(std::lrint(value));
}

// ---- floats ----

template <typename E>
BlockRange range(const void* src, size_t n) {
  BlockRange result;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    const auto exponent = static_cast<uint8_t>((bits & kAbsMask) >> kMantissaBits);
    if (!is_finite(bits)) {
      result.has_nonfinite = true;
    } else if ((bits & kAbsMask) != 0) {
      const auto below = static_cast<uint8_t>(((bits & kAbsMask) - 1) >> kMantissaBits);
      result.max_exponent = std::max(result.max_exponent, exponent);
      result.least = std::max(result.least, static_cast<uint8_t>(255 - below));
    }
  }
  return result;
}

template <typename E>
void quantize(const void* src, uint8_t* words, size_t n, Scale scale) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    const float value = is_finite(bits) ? bits_as<float>(bits) : 0.0F;
    put_word(words, i, static_cast<uint32_t>(round_to_int(value * scale.first * scale.second)));
  }
}

template <typename E>
void dequantize(const uint8_t* words, void* dst, size_t n, Scale scale, float divisor) {
  for (size_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(static_cast<int32_t>(word_at(words, i))) * scale.first * scale.second;
    store_at(dst, i, E::from_bits(bits_as<uint32_t>(divisor == 1.0F ? value : value / divisor)));
  }
}

template <typename E>
void quantize_wide(const void* src, uint8_t* high, uint8_t* low, size_t n, int exponent, int low_bits) {
  const double scale = std::ldexp(1.0, exponent);
  const int64_t half = int64_t{1} << (low_bits - 1);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    const double value = is_finite(bits) ? static_cast<double>(bits_as<float>(bits)) : 0.0;
    const auto q = static_cast<int64_t>(std::llrint(value * scale));
    const int64_t below = ((q + half) & (2 * half - 1)) - half;
    put_word(high, i, static_cast<uint32_t>((q - below) >> low_bits));
    put_word(low, i, static_cast<uint32_t>(below));
  }
}

template <typename E>
void dequantize_wide(const uint8_t* high, const uint8_t* low, void* dst, size_t n, int exponent, int low_bits,
                     float divisor) {
  const double scale = std::ldexp(1.0, exponent);
  for (size_t i = 0; i < n; ++i) {
    const int64_t q = (static_cast<int64_t>(static_cast<int32_t>(word_at(high, i))) * (int64_t{1} << low_bits)) +
                      static_cast<int32_t>(word_at(low, i));
    const auto value = static_cast<float>(static_cast<double>(static_cast<float>(q)) * scale);
    store_at(dst, i, E::from_bits(bits_as<uint32_t>(divisor == 1.0F ? value : value / divisor)));
  }
}

template <typename E>
double number_at(const void* src, size_t i) {
  return static_cast<double>(bits_as<float>(element_bits<E>(src, i)));
}
template <>
double number_at<Float64>(const void* src, size_t i) {
  return load_at<double>(src, i);
}

// Whether float64 adds these numbers without rounding: exact_simd.h has the proof. They must be of a narrower type.
bool adds_exactly(const double* numbers, size_t count, int precision) {
  uint64_t most = 0;
  uint64_t least = ~uint64_t{0};
  for (size_t s = 0; s < count; ++s) {
    const uint64_t magnitude = bits_as<uint64_t>(numbers[s]) & INT64_MAX;
    most = std::max(most, magnitude);
    least = std::min(least, magnitude - 1);  // A zero does not count.
  }
  constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;
  constexpr int kLogOfMostSources = 7;
  static_assert(kMaxSources <= size_t{1} << kLogOfMostSources);
  const uint64_t most_apart = static_cast<uint64_t>(53 - precision - kLogOfMostSources) << 52;
  return most < kInfinity && most - least <= most_apart;
}

template <typename E>
typename E::Raw element_of(double number) {
  const float rounded = std::is_same_v<E, Float32> ? static_cast<float>(number) : float32_to_odd(number);
  return static_cast<typename E::Raw>(E::from_bits(bits_as<uint32_t>(rounded)));
}
template <>
uint64_t element_of<Float64>(double number) {
  return bits_as<uint64_t>(number);
}

// Whether `sum` is exact, or one addition of float64 that rounds once.
template <typename E>
bool sums_simply(const double* numbers, size_t count, double sum, uint32_t divisor) {
  if (std::is_same_v<E, Float64>) return divisor == 1 && count <= 2 && std::isfinite(sum);
  return adds_exactly(numbers, count, E::kFormat.precision);
}

template <typename E>
void sum_exactly(const void* const* sources, size_t count, void* dst, size_t n, uint32_t divisor) {
  double numbers[kMaxSources];
  for (size_t i = 0; i < n; ++i) {
    double sum = -0.0;  // The neutral element, for zeros of either sign.
    for (size_t s = 0; s < count; ++s) sum += numbers[s] = number_at<E>(sources[s], i);
    if (sums_simply<E>(numbers, count, sum, divisor)) {
      store_at(dst, i, element_of<E>(divisor == 1 ? sum : shared_out<double>(sum, divisor)));
    } else {
      store_at(dst, i, static_cast<typename E::Raw>(exact_sum(numbers, count, divisor, E::kFormat)));
    }
  }
}

template <typename E>
void classify(const void* src, uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    uint32_t count = 0;
    if ((bits & kAbsMask) > static_cast<uint32_t>(kInfinityBits)) {
      count = kCountNan;
    } else if (!is_finite(bits)) {
      count = (bits >> 31) != 0 ? kCountNegInf : kCountPosInf;
    }
    put_word(words, i, count);
  }
}

// Sign and magnitude to two's complement and back: an involution.
uint32_t flip_magnitude(uint32_t bits) { return (bits >> 31) != 0 ? bits ^ kAbsMask : bits; }

// One constant serves for NaN in both directions: complementing maps -Inf to +Inf's key, which is below it.
template <typename E>
void order(const void* src, uint8_t* words, size_t n, bool minimum) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    const uint32_t key = minimum ? ~flip_magnitude(bits) : flip_magnitude(bits);
    const bool is_nan = (bits & kAbsMask) > static_cast<uint32_t>(kInfinityBits);
    put_word(words, i, is_nan ? static_cast<uint32_t>(kQuietNanBits) : key);
  }
}

template <typename E>
void unorder(const uint8_t* words, void* dst, size_t n, bool minimum) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t key = minimum ? ~word_at(words, i) : word_at(words, i);
    const uint32_t bits = flip_magnitude(key);
    const bool is_nan = (bits & kAbsMask) > static_cast<uint32_t>(kInfinityBits);
    store_at(dst, i, E::from_bits(is_nan ? static_cast<uint32_t>(kQuietNanBits) : bits));
  }
}

// ---- integers ----

template <typename T>
void widen(const void* src, uint8_t* words, size_t n, bool complement) {
  const uint32_t flip = complement ? ~0U : 0U;
  for (size_t i = 0; i < n; ++i) {
    put_word(words, i, static_cast<uint32_t>(static_cast<int32_t>(load_at<T>(src, i))) ^ flip);
  }
}

template <typename T>
void narrow(const uint8_t* words, void* dst, size_t n, bool complement) {
  const uint32_t flip = complement ? ~0U : 0U;
  for (size_t i = 0; i < n; ++i) store_at(dst, i, static_cast<T>(word_at(words, i) ^ flip));
}

constexpr int kLimbBits = 22;
constexpr uint64_t kLimbMask = (uint64_t{1} << kLimbBits) - 1;

void split64(const void* src, uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto value = load_at<uint64_t>(src, i);
    for (size_t limb = 0; limb < kInt64Words; ++limb) {
      put_word(words, kInt64Words * i + limb, static_cast<uint32_t>((value >> (kLimbBits * limb)) & kLimbMask));
    }
  }
}

void join64(const uint8_t* words, void* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint64_t value = 0;
    for (size_t limb = 0; limb < kInt64Words; ++limb) {
      value += static_cast<uint64_t>(word_at(words, kInt64Words * i + limb)) << (kLimbBits * limb);
    }
    store_at(dst, i, value);
  }
}

// ---- words ----

uint32_t dot(const uint8_t* words, const uint32_t* coefficients, size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += load_at<uint32_t>(coefficients, i) * word_at(words, i);
  return sum;
}

void store(int32_t* accumulators, const uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) store_at(accumulators, i, word_at(words, i));
}

void add(int32_t* accumulators, const uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) store_at(accumulators, i, load_at<uint32_t>(accumulators, i) + word_at(words, i));
}

void max(int32_t* accumulators, const uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto word = static_cast<int32_t>(word_at(words, i));
    if (word > load_at<int32_t>(accumulators, i)) store_at(accumulators, i, word);
  }
}

void load(const int32_t* accumulators, uint8_t* words, size_t n) {
  for (size_t i = 0; i < n; ++i) put_word(words, i, load_at<uint32_t>(accumulators, i));
}

int32_t digit_of(uint32_t bits) { return static_cast<int16_t>(bits & 0xffffU); }

void pack_digits(const uint8_t* digits, uint8_t* packed, size_t n) {
  const size_t h = (n + 1) / 2;
  for (size_t i = 0; i < h; ++i) {
    const uint32_t upper = h + i < n ? word_at(digits, h + i) << 16 : 0;
    put_word(packed, i, word_at(digits, i) + upper);
  }
}

void unpack_digits(const uint8_t* packed, uint8_t* digits, size_t n) {
  const size_t h = (n + 1) / 2;
  for (size_t i = 0; i < h; ++i) {
    const uint32_t word = word_at(packed, i);
    put_word(digits, i, static_cast<uint32_t>(digit_of(word)));
    // The lower digit has borrowed from the upper one where it is negative.
    if (h + i < n) put_word(digits, h + i, static_cast<uint32_t>(digit_of((word + 0x8000U) >> 16)));
  }
}

void copy_non_temporal(const void* src, void* dst, size_t n) {
  if (n != 0) std::memcpy(dst, src, n);
}

template <typename E>
void widen_half(const void* src, void* dst, size_t n) {
  constexpr uint32_t kQuietBit = uint32_t{1} << (kMantissaBits - 1);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = element_bits<E>(src, i);
    const bool is_nan = (bits & kAbsMask) > static_cast<uint32_t>(kInfinityBits);
    store_at(dst, i, std::is_same_v<E, Float16> && is_nan ? bits | kQuietBit : bits);
  }
}

void scale_int8(const void* src, void* dst, size_t n, float scale) {
  for (size_t i = 0; i < n; ++i) store_at(dst, i, static_cast<float>(load_at<int8_t>(src, i)) * scale);
}

constexpr Kernels kTable = {
    "scalar",
    {range<Float32>, range<Float16>, range<BFloat16>},
    {quantize<Float32>, quantize<Float16>, quantize<BFloat16>},
    {dequantize<Float32>, dequantize<Float16>, dequantize<BFloat16>},
    {quantize_wide<Float32>, quantize_wide<Float16>, quantize_wide<BFloat16>},
    {dequantize_wide<Float32>, dequantize_wide<Float16>, dequantize_wide<BFloat16>},
    {sum_exactly<Float32>, sum_exactly<Float16>, sum_exactly<BFloat16>, sum_exactly<Float64>},
    {classify<Float32>, classify<Float16>, classify<BFloat16>},
    {order<Float32>, order<Float16>, order<BFloat16>},
    {unorder<Float32>, unorder<Float16>, unorder<BFloat16>},
    {widen<int32_t>, widen<int8_t>, widen<uint8_t>, widen<int16_t>},
    {narrow<int32_t>, narrow<int8_t>, narrow<uint8_t>, narrow<int16_t>},
    split64,
    join64,
    dot,
    store,
    add,
    max,
    load,
    pack_digits,
    unpack_digits,
    copy_non_temporal,
    {widen_half<Float16>, widen_half<BFloat16>},
    scale_int8,
    &kPartialSums,
};

}  // namespace

const Kernels* scalar_kernels() { return &kTable; }

}  // namespace switchml
