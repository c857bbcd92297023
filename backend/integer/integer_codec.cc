#include "integer/integer_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/fnv.h"
#include "base/limits.h"
#include "integer/nonfinite.h"
#include "integer/witness.h"

namespace switchml {

namespace {

size_t row(ElementType type) { return static_cast<size_t>(float_row(type)); }
size_t int_row(ElementType type) { return static_cast<size_t>(integer_row(type)); }

void put_word(uint8_t* words, size_t i, uint32_t value) {
  wire::detail::store<uint32_t>(words + i * kWordBytes, value);
}
uint32_t get_word(const uint8_t* words, size_t i) { return wire::detail::load<uint32_t>(words + i * kWordBytes); }

}  // namespace

IntegerCodec::IntegerCodec(const Collective& collective, const ChunkPlan& plan, int ranks)
    : collective_(collective),
      operands_(*collective.operands()),
      plan_(plan),
      kernels_(kernels()),
      bits_(magnitude_bits(ranks)) {}

wire::Operation IntegerCodec::operation(Stage stage) const {
  if (stage == Stage::kCall || stage == Stage::kAnnounced) return wire::Operation::kMax;  // [CALL-1, LANE-7]
  const bool compares = collective_.op == ReduceOp::kMin || collective_.op == ReduceOp::kMax;
  return compares ? wire::Operation::kMax : wire::Operation::kSum;  // [CALL-9, CALL-11]
}

const uint8_t* IntegerCodec::source(size_t input, size_t element) const {
  const void* elements = operands_.inputs.empty() ? operands_.input : operands_.inputs[input];
  return static_cast<const uint8_t*>(elements) + element * element_bytes(collective_.type);
}

uint8_t* IntegerCodec::target(size_t element) const {
  return static_cast<uint8_t*>(operands_.output.data) +
         (element - operands_.output.begin) * element_bytes(collective_.type);
}

size_t IntegerCodec::encode_call(size_t g, uint8_t* words) const {
  const size_t total = plan_.call_words(g);
  if (total == 0) return 0;
  const ElementRange range = plan_.superblock(g);
  const size_t blocks = plan_.blocks_of_superblock(g);
  std::memset(words + blocks * kWordBytes, 0, (total - blocks) * kWordBytes);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = b * plan_.block_elements();
    const size_t n = std::min(plan_.block_elements(), range.count - begin);
    uint32_t exponent = 0;
    for (size_t input = 0; input < inputs(); ++input) {
      const BlockRange found = kernels_.range[row(collective_.type)](source(input, range.begin + begin), n);
      exponent = std::max<uint32_t>(exponent, found.max_exponent);               // [CALL-6]
      if (found.has_nonfinite) put_word(words, blocks + b / kBlocksPerFlag, 1);  // [CALL-6]
    }
    put_word(words, b, exponent);
  }
  return total;
}

bool IntegerCodec::plausible_call(size_t g, const uint8_t* words, size_t n) const {
  if (n != plan_.call_words(g)) return false;
  const size_t blocks = plan_.blocks_of_superblock(g);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t highest = i < blocks ? 254 : 1;  // [MAX-3]
    if (Witness::guarded_value(get_word(words, i)) > highest) return false;
  }
  return true;
}

void IntegerCodec::decode_call(const uint8_t* words, size_t n, Superblock* superblock) const {
  const size_t blocks = plan_.blocks_of_superblock(superblock->number);
  SWITCHML_ASSERT(n == plan_.call_words(superblock->number));
  for (size_t b = 0; b < blocks; ++b) {
    superblock->exponents[b] = static_cast<uint8_t>(Witness::guarded_value(get_word(words, b)));
  }
  for (size_t f = blocks; f < n; ++f) {
    superblock->has_nonfinite |= Witness::guarded_value(get_word(words, f)) != 0;
  }
  superblock->ready = true;
}

// Combines all inputs' words as the switch would, a block at a time, which stays in L1.
template <typename Encode>
size_t IntegerCodec::combine(ElementRange range, wire::Operation how, uint8_t* words, const Encode& encode) const {
  if (inputs() == 1) return encode(0, range, words);
  std::array<uint8_t, kMaxBlockElements * kInt64Words * kWordBytes> one;
  alignas(64) std::array<int32_t, kMaxBlockElements * kInt64Words> total;
  size_t written = 0;
  for (size_t done = 0; done < range.count; done += plan_.block_elements()) {
    const ElementRange part{range.begin + done, std::min(plan_.block_elements(), range.count - done)};
    size_t n = 0;
    for (size_t input = 0; input < inputs(); ++input) {
      n = encode(input, part, one.data());
      (input == 0                     ? kernels_.store
       : how == wire::Operation::kSum ? kernels_.add  // [HOST-2]
                                      : kernels_.max)(total.data(), one.data(), n);
    }
    kernels_.load(total.data(), words + written * kWordBytes, n);
    written += n;
  }
  return written;
}

void IntegerCodec::encode_sum_of_floats(size_t input, ElementRange range, const Superblock& superblock,
                                        uint8_t* words) const {
  const size_t block = plan_.block_elements();
  const auto quantize = kernels_.quantize[row(collective_.type)];
  for (size_t done = 0; done < range.count;) {
    const size_t offset = range.begin + done - superblock.range.begin;
    const size_t n = std::min(block - offset % block, range.count - done);  // A chunk may begin inside a block.
    const uint8_t exponent = superblock.exponents[offset / block];
    quantize(source(input, range.begin + done), words + done * kWordBytes, n, quantize_scale(exponent, bits_));
    done += n;
  }
}

size_t IntegerCodec::encode_elements(size_t input, ElementRange range, const Superblock* superblock,
                                     uint8_t* words) const {
  const bool minimum = collective_.op == ReduceOp::kMin;
  const uint8_t* from = source(input, range.begin);
  if (plan_.with_exponents()) {
    encode_sum_of_floats(input, range, *superblock, words);
  } else if (is_floating(collective_.type)) {
    kernels_.order[row(collective_.type)](from, words, range.count, minimum);  // [WORD-2, WORD-3]
  } else if (collective_.type == ElementType::kInt64) {
    kernels_.split64(from, words, range.count);  // [WORD-6]
  } else {
    kernels_.widen[int_row(collective_.type)](from, words, range.count, minimum);  // [WORD-4, WORD-5]
  }
  return range.count * plan_.words_per_element();
}

size_t IntegerCodec::encode_data(ElementRange range, const Superblock* superblock, uint8_t* words) const {
  return combine(range, operation(Stage::kData), words, [&](size_t input, ElementRange part, uint8_t* to) {
    return encode_elements(input, part, superblock, to);
  });
}

// Decodes the part of `range` that the caller wants.
void IntegerCodec::decode_data(const uint8_t* words, ElementRange range, const Superblock* superblock) const {
  const size_t begin = std::max(range.begin, operands_.output.begin);
  const size_t end = std::min(range.begin + range.count, operands_.output.end);
  if (begin >= end) return;
  const ElementRange wanted{begin, end - begin};
  words += (begin - range.begin) * plan_.words_per_element() * kWordBytes;
  if (plan_.with_exponents()) {
    decode_sum_of_floats(words, wanted, *superblock);
    if (superblock->has_nonfinite) {
      const uint8_t* classes = superblock->classes + (wanted.begin - superblock->range.begin);
      write_nonfinite(collective_.type, target(wanted.begin), classes, wanted.count);  // [WORD-10]
    }
  } else {
    decode_words(words, target(begin), wanted.count);
  }
}

void IntegerCodec::decode_sum_of_floats(const uint8_t* words, ElementRange range, const Superblock& superblock) const {
  const size_t block = plan_.block_elements();
  const auto dequantize = kernels_.dequantize[row(collective_.type)];
  for (size_t done = 0; done < range.count;) {
    const size_t offset = range.begin + done - superblock.range.begin;
    const size_t n = std::min(block - offset % block, range.count - done);  // A wanted part may begin inside a block.
    const uint8_t exponent = superblock.exponents[offset / block];
    dequantize(words + done * kWordBytes, target(range.begin + done), n, dequantize_scale(exponent, bits_),
               static_cast<float>(operands_.divisor));
    done += n;
  }
}

void IntegerCodec::decode_words(const uint8_t* words, uint8_t* out, size_t n) const {
  const bool minimum = collective_.op == ReduceOp::kMin;
  if (is_floating(collective_.type)) {
    kernels_.unorder[row(collective_.type)](words, out, n, minimum);
  } else if (collective_.type == ElementType::kInt64) {
    kernels_.join64(words, out, n);
  } else {
    kernels_.narrow[int_row(collective_.type)](words, out, n, minimum);
  }
}

size_t IntegerCodec::encode_nonfinite(ElementRange range, uint8_t* words) const {
  return combine(range, wire::Operation::kSum, words, [&](size_t input, ElementRange part, uint8_t* to) {
    kernels_.classify[row(collective_.type)](source(input, part.begin), to, part.count);
    return part.count;
  });
}

void IntegerCodec::decode_nonfinite(const uint8_t* words, ElementRange range, Superblock* superblock) const {
  uint8_t* out = superblock->classes + (range.begin - superblock->range.begin);
  for (size_t i = 0; i < range.count; ++i) out[i] = static_cast<uint8_t>(nonfinite_class(get_word(words, i)));
}

uint64_t IntegerCodec::exponents_hash(ElementRange range, const Superblock* superblock) const {
  if (superblock == nullptr) return 0;
  const size_t block = plan_.block_elements();
  const size_t offset = range.begin - superblock->range.begin;
  const size_t first = offset / block;  // [WIT-12]
  const size_t last = (offset + range.count + block - 1) / block;
  return fnv1a(superblock->exponents.data() + first,
               last - first);  // Needs no key: the witness' keyed hash covers it.
}

}  // namespace switchml
