// Kernels between tensor elements and the words of a packet. One table of functions per instruction set; the scalar
// table is the truth and all others equal it bit for bit, for every input, length and alignment (rounding is to nearest
// even everywhere, and the MXCSR/FPCR of the calling thread is the default one: no FTZ, no DAZ).
//
// Words are int32 in network byte order, as they stand in a packet. Pointers need no alignment. `n` is in elements
// unless it says otherwise. No kernel allocates, blocks or throws; all are thread-safe (no state).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/element_type.h"
#include "base/limits.h"
#include "base/status.h"
#include "kernels/partial_sum.h"

namespace switchml {

/// A power of two applied as two float factors, so that factors outside the float range (2^-155 ... 2^155) stay exact.
struct Scale {
  float first = 1.0F;
  float second = 1.0F;
};

struct BlockRange {
  /// Maximum over the finite elements of the biased 8-bit fp32 exponent field (after exact conversion to fp32);
  /// 0 where all are zero or subnormal.
  uint8_t max_exponent = 0;
  /// 0 where all finite elements are zeros. Else 255 less the biased exponent field of the float next below their least
  /// magnitude; the field is 0 for what is below a normal float.
  uint8_t least = 0;
  bool has_nonfinite = false;
};

/// Classes of non-finite elements, as fields of a non-finite chunk's count word (10 bits each, they add).
inline constexpr uint32_t kCountNan = 1U;
inline constexpr uint32_t kCountPosInf = 1U << 10;
inline constexpr uint32_t kCountNegInf = 1U << 20;

/// Most sources of one call.
inline constexpr size_t kMaxSources = kMaxWorkers;

struct Kernels {
  const char* name;  // "scalar", "avx2", "avx512", "neon".

  // ---- floats: sum; src/dst element type by float_row() ----
  /// Range of n elements.
  BlockRange (*range[3])(const void* src, size_t n);
  /// words[i] = be32(int32(rint(float(src[i]) * scale.first * scale.second))); a non-finite element gives 0.
  /// The caller's scale keeps every product within +-2^30; a product that is no int32 gives INT32_MIN. [WORD-1]
  void (*quantize[3])(const void* src, uint8_t* words, size_t n, Scale scale);
  /// dst[i] = T((float(int32(be32(words[i]))) * scale.first * scale.second) / divisor); divisor 1 divides nothing.
  /// Scale factors and divisor are finite and not 0.
  /// Conversion to fp16/bf16 rounds to nearest even; beyond the largest finite value it gives infinity. [WORD-9]
  void (*dequantize[3])(const uint8_t* words, void* dst, size_t n, Scale scale, float divisor);
  /// q = rint(float(src[i]) * 2^exponent), 0 for a non-finite element, as be32 words high[i] * 2^low_bits + low[i] with
  /// -2^(low_bits-1) <= low[i] < 2^(low_bits-1). |q| < 2^62, 8 <= low_bits <= 32, |exponent| <= 254. [WORD-14]
  void (*quantize_wide[3])(const void* src, uint8_t* high, uint8_t* low, size_t n, int exponent, int low_bits);
  /// dst[i] = T((float(high[i] * 2^low_bits + low[i]) * 2^exponent) / divisor), as dequantize. [WORD-9]
  void (*dequantize_wide[3])(const uint8_t* high, const uint8_t* low, void* dst, size_t n, int exponent, int low_bits,
                             float divisor);
  /// dst[i] = exact_sum() (exact_sum.h) of element i of `count` sources: divided by `divisor`, rounded to nearest even
  /// once. Rows 0 to 2, and float64 as row 3. 1 <= count <= kMaxSources, 1 <= divisor <= kMaxRanks. dst overlaps no
  /// source.
  void (*exact_sum[4])(const void* const* sources, size_t count, void* dst, size_t n, uint32_t divisor);
  /// words[i] = be32(kCountNan | kCountPosInf | kCountNegInf | 0) by the class of src[i]. [CALL-9]
  void (*classify[3])(const void* src, uint8_t* words, size_t n);

  // ---- order-preserving maps: max; min is max of the complement ----
  /// Floats: int32 in the order of the values, -Inf < ... < -0 < +0 < ... < +Inf < any NaN. With `minimum` the map is
  /// complemented so that the maximum of the words is the minimum of the values, NaN again above all.
  /// [WORD-2, WORD-3]
  void (*order[3])(const void* src, uint8_t* words, size_t n, bool minimum);
  /// The inverse. NaN comes out as the quiet NaN 0x7fc00000 (fp16 0x7e00, bf16 0x7fc0).
  void (*unorder[3])(const uint8_t* words, void* dst, size_t n, bool minimum);

  // ---- integers: words hold the sign- or zero-extended value, complemented with `complement` ----
  /// int32, int8, uint8, int16 (one word per element), indexed by integer_row(). [WORD-4, WORD-5]
  void (*widen[4])(const void* src, uint8_t* words, size_t n, bool complement);
  /// The low bits of each word (so sums are exact modulo the type's width). [WORD-11]
  void (*narrow[4])(const uint8_t* words, void* dst, size_t n, bool complement);
  /// int64 as kInt64Words (base/element_type.h) unsigned limbs of 22, 22 and 20 bits per element, least significant
  /// first; n in elements. [WORD-6]
  void (*split64)(const void* src, uint8_t* words, size_t n);
  void (*join64)(const uint8_t* words, void* dst, size_t n);  // [WORD-11]

  // ---- words ----
  /// Sum modulo 2^32 of coefficient[i] * word[i].
  uint32_t (*dot)(const uint8_t* words, const uint32_t* coefficients, size_t n);
  /// Accumulators are host-order int32 (64-byte aligned); words as in a packet. For the software switch.
  void (*store)(int32_t* accumulators, const uint8_t* words, size_t n);
  void (*add)(int32_t* accumulators, const uint8_t* words, size_t n);  // Wraps modulo 2^32. [PKT-13]
  void (*max)(int32_t* accumulators, const uint8_t* words, size_t n);
  /// words[i] = be32(accumulators[i]).
  void (*load)(const int32_t* accumulators, uint8_t* words, size_t n);

  // ---- two digits of 16 bits in a word; n in digits, h = ceil(n / 2) ----
  /// packed[i] = digits[i] + digits[h + i] * 2^16 modulo 2^32, for i < h; of an odd n the last digit is alone. A digit
  /// is a word from -2^15 to 2^15 - 1. [WORD-13]
  void (*pack_digits)(const uint8_t* digits, uint8_t* packed, size_t n);
  /// The inverse, also of sums of such words, as long as no digit's sum leaves 16 bits.
  void (*unpack_digits)(const uint8_t* packed, uint8_t* digits, size_t n);

  // ---- bytes ----
  /// Copies with non-temporal stores where the processor has them. Like plain stores they are ordered before a later
  /// release. `n` in bytes.
  void (*copy_non_temporal)(const void* src, void* dst, size_t n);

  // ---- narrow terms, to float32 ----
  /// Exactly: float16 and bfloat16, indexed by float_row() - 1. A NaN of float16 becomes a quiet one.
  void (*widen_half[2])(const void* src, void* dst, size_t n);
  /// dst[i] = int8(src[i]) * scale.
  void (*scale_int8)(const void* src, void* dst, size_t n, float scale);
  // ---- partial sums ----
  const PartialSumKernels* partial_sums;
};

/// Row of a floating type in range/quantize/...: float32 0, float16 1, bfloat16 2; float64 3, which
/// exact_sum alone has. Precondition: is_floating(type), and not is_float8(type).
int float_row(ElementType type);
/// Row of an integer type in widen/narrow: int32 0, int8 1, uint8 2, int16 3. Precondition: one of those.
int integer_row(ElementType type);

/// The tables that this build has and this processor can run, best first; the last one is always scalar.
std::vector<const Kernels*> available_kernels();

/// The table of kernels, chosen once: the best available, or the one that SWITCHML_KERNELS names. For a name that does
/// not exist or that this processor cannot run, select_kernels() lists the allowed ones, and kernels() is scalar.
Result<const Kernels*> select_kernels(const std::string& name);
const Kernels& kernels();

}  // namespace switchml
