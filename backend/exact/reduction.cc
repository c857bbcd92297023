#include "exact/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "exact/float_format.h"
#include "kernels/exact_sum.h"
#include "kernels/kernels.h"
#include "kernels/narrow_floats.h"

namespace switchml {

namespace {

constexpr size_t kBlock = kMaxBlockElements;

/// The same elements of every rank.
struct Block {
  std::array<const void*, kMaxWorkers> sources;
  size_t ranks;
  size_t elements;
};

Block block_at(const uint8_t* const* inputs, int ranks, size_t first_byte, size_t elements) {
  Block block;
  block.ranks = static_cast<size_t>(ranks);
  block.elements = elements;
  for (size_t rank = 0; rank < block.ranks; ++rank) block.sources[rank] = inputs[rank] + first_byte;
  return block;
}

// ---- one rank after the other ----

template <typename T>
T load_at(const void* from, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(from) + i * sizeof value, sizeof value);
  return value;
}

/// combine(combine(begin(first), second), third) ... of elements of type T; `block` has at most kBlock of them.
template <typename T, typename Begin, typename Combine>
void fold(const Block& block, uint8_t* out, const Begin& begin, const Combine& combine) {
  std::array<T, kBlock> total;
  for (size_t i = 0; i < block.elements; ++i) total[i] = begin(load_at<T>(block.sources[0], i));
  for (size_t rank = 1; rank < block.ranks; ++rank) {
    for (size_t i = 0; i < block.elements; ++i) total[i] = combine(total[i], load_at<T>(block.sources[rank], i));
  }
  std::memcpy(out, total.data(), block.elements * sizeof(T));
}

template <typename T, typename Combine>
void fold(const Block& block, uint8_t* out, const Combine& combine) {
  fold<T>(
      block, out, [](T first) { return first; }, combine);
}

/// T is unsigned: the low bits of the product are the same as those of the signed type.
template <typename T>
void multiply(const Block& block, uint8_t* out) {  // [OP-4]
  fold<T>(block, out, [](T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * b); });
}

void multiply_integers(size_t size, const Block& block, uint8_t* out) {
  switch (size) {
    case 1: return multiply<uint8_t>(block, out);
    case 2: return multiply<uint16_t>(block, out);
    case 4: return multiply<uint32_t>(block, out);
    default: return multiply<uint64_t>(block, out);
  }
}

/// A bool is true if its byte is not 0; a true result is 1, also with one rank.
void combine_bools(ReduceOp op, const Block& block, uint8_t* out) {  // [OP-7]
  const auto each = [&](const auto& combine) {
    fold<uint8_t>(
        block, out, [](uint8_t first) { return static_cast<uint8_t>(first != 0); },
        [&](uint8_t a, uint8_t b) { return static_cast<uint8_t>(combine(a != 0, b != 0)); });
  };
  if (op == ReduceOp::kAnd) return each([](bool a, bool b) { return a && b; });
  if (op == ReduceOp::kOr) return each([](bool a, bool b) { return a || b; });
  each([](bool a, bool b) { return a != b; });
}

void combine_bits(ReduceOp op, const Block& bytes, uint8_t* out) {  // [OP-7]
  const auto each = [&](const auto& combine) { fold<uint8_t>(bytes, out, combine); };
  if (op == ReduceOp::kAnd) return each([](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a & b); });
  if (op == ReduceOp::kOr) return each([](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | b); });
  each([](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a ^ b); });
}

void extremes_of_int64(bool minimum, const Block& block, uint8_t* out) {
  fold<int64_t>(block, out, [minimum](int64_t a, int64_t b) { return (a < b) == minimum ? a : b; });
}

/// -0 is below +0, and a NaN wins, as with the narrower types.
void extremes_of_float64(bool minimum, const Block& block, uint8_t* out) {  // [OP-6, OP-8]
  constexpr int64_t kInfinity = int64_t{0x7ff} << 52;
  constexpr int64_t kQuietNan = int64_t{0xfff} << 51;
  const auto key = [](int64_t bits) { return bits < 0 ? bits ^ INT64_MAX : bits; };
  const auto quiet = [](int64_t bits) { return (bits & INT64_MAX) > kInfinity ? kQuietNan : bits; };
  fold<int64_t>(block, out, quiet, [&](int64_t a, int64_t b) {
    if (a == kQuietNan || quiet(b) == kQuietNan) return kQuietNan;
    return (key(a) < key(b)) == minimum ? a : b;
  });
}

void multiply_floats(ElementType type, const Block& block, uint8_t* out) {
  const FloatFormat format = format_of(type);
  const size_t size = element_bytes(type);
  for (size_t i = 0; i < block.elements; ++i) {
    double product = 1;
    for (size_t rank = 0; rank < block.ranks; ++rank) {
      uint64_t bits = 0;
      std::memcpy(&bits, static_cast<const uint8_t*>(block.sources[rank]) + i * size, size);
      product *= number_of(bits, format);  // [OP-5]
    }
    const uint64_t bits = exact_sum(&product, 1, 1, format);
    std::memcpy(out + i * size, &bits, size);
  }
}

// ---- words ----

/// Minima, maxima, and sums of integers, with a word per element.
void reduce_words(const ElementReduction& reduction, const Block& block, uint8_t* out) {  // [OP-4, OP-6]
  const Kernels& table = kernels();
  const bool minimum = reduction.op == ReduceOp::kMin;
  const bool floats = is_floating(reduction.type);
  const auto row = static_cast<size_t>(floats ? float_row(reduction.type) : integer_row(reduction.type));
  const auto encode = floats ? table.order[row] : table.widen[row];
  const auto decode = floats ? table.unorder[row] : table.narrow[row];
  std::array<uint8_t, kBlock * kWordBytes> words;
  alignas(64) std::array<int32_t, kBlock> total;
  for (size_t rank = 0; rank < block.ranks; ++rank) {
    encode(block.sources[rank], words.data(), block.elements, minimum);
    const auto combine = rank == 0 ? table.store : reduction.op == ReduceOp::kSum ? table.add : table.max;
    combine(total.data(), words.data(), block.elements);
  }
  table.load(total.data(), words.data(), block.elements);
  decode(words.data(), out, block.elements, minimum);
}

void reduce_block(const ElementReduction& reduction, const Block& block, uint8_t* out) {
  const ElementType type = reduction.type;
  const bool minimum = reduction.op == ReduceOp::kMin;
  if (reduction.op == ReduceOp::kProduct) {
    if (is_floating(type)) return multiply_floats(type, block, out);
    return multiply_integers(element_bytes(type), block, out);
  }
  if (type == ElementType::kBool) return combine_bools(reduction.op, block, out);
  if (is_bitwise(reduction.op)) return combine_bits(reduction.op, block, out);  // Elements of a byte.
  if (type == ElementType::kFloat64) return extremes_of_float64(minimum, block, out);
  if (type != ElementType::kInt64) return reduce_words(reduction, block, out);
  if (reduction.op != ReduceOp::kSum) return extremes_of_int64(minimum, block, out);
  fold<uint64_t>(block, out, [](uint64_t a, uint64_t b) { return a + b; });  // [OP-4]
}

// ---- floats of 8 bits, and sums of narrow terms ----

void reduce_float8(const ElementReduction& reduction, const uint8_t* const* inputs, size_t ranks, size_t n,
                   uint8_t* out) {
  const ElementType type = reduction.type;
  if (reduction.op == ReduceOp::kSum) return sum_float8(type, inputs, ranks, n, reduction.divisor, out);
  if (reduction.op == ReduceOp::kProduct) return multiply_float8(type, inputs, ranks, n, out);
  extreme_of_float8(type, inputs, ranks, n, reduction.op == ReduceOp::kMin, out);
}

/// Terms that a processor's first cache has room for as float32, and the fewest of a rank among them.
constexpr size_t kWideTerms = 8192;
constexpr size_t kLeastTerms = kWideTerms / kMaxWorkers;
static_assert(kLeastTerms == kScaledValues);

// The terms are exact in float32, so its exact sum is theirs. [NSUM-2]
void sum_to_float32(const ElementReduction& reduction, const uint8_t* const* inputs, size_t ranks, size_t n,
                    uint8_t* out) {
  alignas(64) std::array<float, kWideTerms> terms;
  std::array<const void*, kMaxWorkers> sources;
  const size_t of_each = std::min(kMaxBlockElements, kWideTerms / ranks / kLeastTerms * kLeastTerms);
  const size_t values = values_per_element(reduction.type);
  const size_t most = of_each / values;
  for (size_t rank = 0; rank < ranks; ++rank) sources[rank] = terms.data() + rank * of_each;
  for (size_t first = 0; first < n; first += most) {
    const size_t count = std::min(most, n - first);
    const size_t offset = first * element_bytes(reduction.type);
    for (size_t rank = 0; rank < ranks; ++rank) {
      to_float32(reduction.type, inputs[rank] + offset, count, terms.data() + rank * of_each);
    }
    uint8_t* const to = out + first * result_bytes(reduction.op, reduction.type);
    kernels().exact_sum[0](sources.data(), ranks, to, count * values, reduction.divisor);
  }
}

}  // namespace

void reduce(const ElementReduction& reduction, const uint8_t* const* inputs, int ranks, size_t n, uint8_t* out) {
  SWITCHML_ASSERT(ranks >= 1 && ranks <= kMaxWorkers && exact_can(reduction.op, reduction.type));
  const size_t size = element_bytes(reduction.type);
  if (is_bitwise(reduction.op) && size > 1) {
    return reduce({reduction.op, ElementType::kUInt8}, inputs, ranks, n * size, out);
  }
  const auto count = static_cast<size_t>(ranks);
  if (reduction.op == ReduceOp::kSumToFloat32) return sum_to_float32(reduction, inputs, count, n, out);
  if (is_float8(reduction.type)) return reduce_float8(reduction, inputs, count, n, out);
  if (sums_floats(reduction.op, reduction.type)) {
    const Block all = block_at(inputs, ranks, 0, n);
    const auto row = static_cast<size_t>(float_row(reduction.type));
    return kernels().exact_sum[row](all.sources.data(), all.ranks, out, all.elements, reduction.divisor);
  }
  for (size_t first = 0; first < n; first += kBlock) {
    reduce_block(reduction, block_at(inputs, ranks, first * size, std::min(kBlock, n - first)), out + first * size);
  }
}

}  // namespace switchml
