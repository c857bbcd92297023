#include "integer/block_exponent.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"

namespace switchml {

namespace {

// The result e: all |x| of the block are below 2^e.
int value_bound(int max_exponent) {
  SWITCHML_ASSERT(max_exponent >= 0 && max_exponent <= 254);
  return std::max(max_exponent, 1) - 126;  // [WORD-7]
}

// 2^exponent by its bits: this runs once per block on the packet path. Precondition: the result is a normal float.
float normal_power(int exponent) {
  const uint32_t bits = static_cast<uint32_t>(exponent + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

int magnitude_bits(int ranks, int w, int precision) {
  SWITCHML_ASSERT(ranks >= 1 && ranks <= kMaxRanks);
  const int64_t limit = int64_t{1} << (w - 1);
  int bits = w - 2;
  // |x| < 2^e has `precision` significant bits, so rint() reaches 2^b only with fewer; 2^b * n must fit in either case.
  while ((int64_t{ranks} << bits) > (bits >= precision ? limit : limit - 1)) --bits;  // [WORD-8]
  return bits;
}

Scale power_of_two(int exponent) {
  SWITCHML_ASSERT(exponent >= -252 && exponent <= 254);
  const int half = exponent / 2;
  if (exponent >= -126 && exponent <= 127) return {normal_power(exponent), 1.0F};
  return {normal_power(half), normal_power(exponent - half)};
}

int quantize_exponent(int max_exponent, int bits) { return bits - value_bound(max_exponent); }  // [WORD-1, WORD-9]

Scale quantize_scale(int max_exponent, int bits) { return power_of_two(quantize_exponent(max_exponent, bits)); }

Scale dequantize_scale(int max_exponent, int bits) { return power_of_two(-quantize_exponent(max_exponent, bits)); }

}  // namespace switchml
