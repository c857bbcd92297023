#include "integer/nonfinite.h"

#include <cstring>

#include "base/assert.h"

namespace switchml {

namespace {

template <typename Bits>
void write(void* out, const uint8_t* classes, size_t n, Bits nan, Bits inf, Bits sign) {
  for (size_t i = 0; i < n; ++i) {
    const auto which = static_cast<Nonfinite>(classes[i]);
    if (which == Nonfinite::kNone) continue;
    const Bits bits =
        which == Nonfinite::kNan ? nan : static_cast<Bits>(which == Nonfinite::kPosInf ? inf : inf | sign);
    std::memcpy(static_cast<uint8_t*>(out) + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

}  // namespace

// Counts are 10 bits each: NaN, +Inf, -Inf (kernels/kernels.h).
uint32_t counted_once(uint32_t counts) {
  constexpr uint32_t kCount = 0x3ff;
  uint32_t once = 0;
  for (int shift = 0; shift < 30; shift += 10) once |= ((counts >> shift) & kCount) != 0 ? uint32_t{1} << shift : 0;
  return once;
}

Nonfinite nonfinite_class(uint32_t counts) {  // [WORD-10]
  const bool nan = (counts & 0x3ffU) != 0;
  const bool positive = ((counts >> 10) & 0x3ffU) != 0;
  const bool negative = ((counts >> 20) & 0x3ffU) != 0;
  if (nan || (positive && negative)) return Nonfinite::kNan;
  if (positive) return Nonfinite::kPosInf;
  return negative ? Nonfinite::kNegInf : Nonfinite::kNone;
}

void write_nonfinite(ElementType type, void* out, const uint8_t* classes, size_t n) {
  SWITCHML_ASSERT(is_floating(type));
  if (type == ElementType::kFloat32) {
    write<uint32_t>(out, classes, n, 0x7fc00000U, 0x7f800000U, 0x80000000U);
  } else if (type == ElementType::kFloat16) {
    write<uint16_t>(out, classes, n, 0x7e00U, 0x7c00U, 0x8000U);
  } else {
    write<uint16_t>(out, classes, n, 0x7fc0U, 0x7f80U, 0x8000U);
  }
}

}  // namespace switchml
