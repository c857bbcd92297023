// Each loop has a body without branches, which compilers turn into vectors.
#include "kernels/narrow.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "kernels/float_bits.h"

namespace switchml {

namespace {

constexpr uint32_t kSignMask = 0x80000000U;
constexpr uint32_t kInfinity = 0x7f800000U;
constexpr size_t kRun = kScaledValues;  // Numbers that are summed before they are rounded.
constexpr uint8_t kNanScale = 255;

uint32_t bits_of(float x) { return bits_as<uint32_t>(x); }
float float_of(uint32_t bits) { return bits_as<float>(bits); }

/// All ones where the condition holds.
uint32_t mask(bool condition) { return condition ? ~0U : 0U; }

uint32_t pick(uint32_t where, uint32_t yes, uint32_t no) { return (yes & where) | (no & ~where); }

/// 0 for what is not finite.
float finite_or_zero(float x) {
  const uint32_t bits = bits_of(x);
  return float_of(bits & mask((bits & kInfinity) != kInfinity));
}

// ---- bfloat16 ----

struct Bfloat16 {
  static uint16_t round(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const uint32_t nan = (bits >> 16 & 0x8000U) | 0x7fc0U;
    return static_cast<uint16_t>(pick(mask((bits & ~kSignMask) > kInfinity), nan, rounded));
  }
  static float value(uint16_t element) { return float_of(static_cast<uint32_t>(element) << 16); }

  static void narrow_run(const float* source, float* error, uint16_t* out) {
    for (size_t i = 0; i < kRun; ++i) {
      const float x = source[i] + error[i];
      out[i] = round(x);
      error[i] = finite_or_zero(x - value(out[i]));
    }
  }
};

// ---- blocks ----

/// Elements of blocks are divided by the scale before they get here.
struct Int8 {
  static constexpr uint32_t kRange = 6;            // 127 = 1.984375 * 2^6
  static constexpr uint32_t kFraction = 0x7e0000;  // .984375
  // What is added to this has a unit in the last place of 1, and its lowest bits are the integer.
  static constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23

  static uint8_t round(float x) { return static_cast<uint8_t>(bits_of(x + kRounder)); }
  static float rounded(float x) { return (x + kRounder) - kRounder; }
};

struct Float8 {
  static constexpr uint32_t kRange = 8;                                   // 448 = 1.75 * 2^8
  static constexpr uint32_t kFraction = 0x600000;                         // .75
  static constexpr uint32_t kFirstNormal = (127U - 6U) << kMantissaBits;  // 2^-6
  static constexpr uint32_t kRebias = (127U - 7U) << 3;
  // Below 2^-6 the unit in the last place is 2^-9, that of float32 from 2^14 on.
  static constexpr float kRounder = 16384.0F;

  static uint32_t rounded_normal(uint32_t magnitude) { return magnitude + 0x7ffffU + ((magnitude >> 20) & 1U); }
  static uint8_t round(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t magnitude = bits & ~kSignMask;
    const uint32_t normal = (rounded_normal(magnitude) >> 20) - kRebias;
    const uint32_t subnormal = bits_of(float_of(magnitude) + kRounder) - bits_of(kRounder);
    const uint32_t element = pick(mask(magnitude >= kFirstNormal), normal, subnormal);
    return static_cast<uint8_t>(element | (bits >> 24 & 0x80U));
  }
  static float rounded(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t magnitude = bits & ~kSignMask;
    const uint32_t normal = rounded_normal(magnitude) & ~0xfffffU;
    const uint32_t subnormal = bits_of((float_of(magnitude) + kRounder) - kRounder);
    return float_of(pick(mask(magnitude >= kFirstNormal), normal, subnormal) | (bits & kSignMask));
  }
};

float scale_of(uint32_t s) { return float_of(s == 0 ? 1U << (kMantissaBits - 1) : s << kMantissaBits); }

/// The scale byte of a block. `magnitude`: the bits of its largest one, which is finite.
template <typename E>
uint32_t scale_byte(uint32_t magnitude) {
  // A fraction beyond that of the type's largest number carries into the exponent.
  const uint32_t exponent = (magnitude + (0x7fffffU - E::kFraction)) >> kMantissaBits;
  return exponent > E::kRange ? exponent - E::kRange : 0;
}

/// error[] becomes source[] + error[]; returns the bits of the largest magnitude, beyond kInfinity for a NaN.
uint32_t add_errors(const float* source, float* error) {
  uint32_t largest = 0;
  for (size_t i = 0; i < kScaledValues; ++i) {
    error[i] += source[i];
    largest = std::max(largest, bits_of(error[i]) & ~kSignMask);
  }
  return largest;
}

template <typename E>
void narrow_block(const float* source, float* error, uint8_t* out) {
  const uint32_t largest = add_errors(source, error);
  if (largest >= kInfinity) {
    out[0] = kNanScale;
    std::memset(out + 1, 0, kScaledValues);
    std::memset(error, 0, kScaledValues * sizeof *error);
    return;
  }
  const uint32_t s = scale_byte<E>(largest);
  const float scale = scale_of(s);
  const float inverse = float_of((254U - s) << kMantissaBits);
  out[0] = static_cast<uint8_t>(s);
  for (size_t i = 0; i < kScaledValues; ++i) {
    const float x = error[i] * inverse;
    out[1 + i] = E::round(x);
    error[i] = finite_or_zero(error[i] - E::rounded(x) * scale);
  }
}

/// Calls run(source, error, out) for each kRun elements, which take `bytes`; with copies where there are fewer
/// elements, filled up with zeros, or no errors.
template <typename F>
void in_runs(const float* source, float* error, size_t n, uint8_t* out, size_t bytes, F run) {
  for (size_t i = 0; i < n; i += kRun, out += bytes) {
    const size_t count = std::min(kRun, n - i);
    if (count == kRun && error != nullptr) {
      run(source + i, error + i, out);
      continue;
    }
    float terms[kRun] = {};
    float errors[kRun];
    std::fill_n(errors, kRun, -0.0F);  // Unlike 0, it changes no sum, not even that of -0.
    std::memcpy(terms, source + i, count * sizeof *terms);
    if (error != nullptr) std::memcpy(errors, error + i, count * sizeof *errors);
    run(terms, errors, out);
    if (error != nullptr) std::memcpy(error + i, errors, count * sizeof *errors);
  }
}

template <typename E>
void narrow_blocks(const float* source, float* error, size_t n, uint8_t* out) {
  in_runs(source, error, n, out, kScaledBytes, &narrow_block<E>);
}

void narrow_bfloat16(const float* source, float* error, size_t n, uint8_t* out) {
  const size_t whole = n / kRun * kRun;
  const auto run = [](const float* terms, float* errors, uint8_t* to) {
    uint16_t rounded[kRun];
    Bfloat16::narrow_run(terms, errors, rounded);
    std::memcpy(to, rounded, sizeof rounded);
  };
  in_runs(source, error, whole, out, 2 * kRun, run);
  if (whole == n) return;
  uint8_t rest[2 * kRun];  // only what is there is written
  in_runs(source + whole, error == nullptr ? nullptr : error + whole, n - whole, rest, sizeof rest, run);
  std::memcpy(out + 2 * whole, rest, 2 * (n - whole));
}

}  // namespace

bool can_narrow(ElementType type) { return type == ElementType::kBFloat16 || is_scaled(type); }

void narrow(ElementType type, const float* source, float* error, size_t n, void* out) {
  SWITCHML_ASSERT(can_narrow(type));
  auto* const bytes = static_cast<uint8_t*>(out);
  if (type == ElementType::kScaledInt8) return narrow_blocks<Int8>(source, error, n, bytes);
  if (type == ElementType::kScaledFloat8) return narrow_blocks<Float8>(source, error, n, bytes);
  narrow_bfloat16(source, error, n, bytes);
}

}  // namespace switchml
