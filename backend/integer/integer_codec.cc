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

// What the words of a call chunk of so many blocks say of block b. Precondition: their values fit a byte.
BlockExponents exponents_of(const uint8_t* words, size_t blocks, size_t b) {
  return {static_cast<uint8_t>(Witness::guarded_value(get_word(words, b))),
          static_cast<uint8_t>(Witness::guarded_value(get_word(words, blocks + b)))};
}

}  // namespace

IntegerCodec::IntegerCodec(const Collective& collective, const ChunkPlan& plan, int ranks,
                           std::optional<int> significant_bits)
    : collective_(collective),
      operands_(*collective.operands()),
      plan_(plan),
      kernels_(kernels()),
      widths_(collective.type, ranks, significant_bits) {}

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
  const size_t flags = 2 * blocks;
  std::memset(words + flags * kWordBytes, 0, (total - flags) * kWordBytes);
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = b * plan_.block_elements();
    const size_t n = std::min(plan_.block_elements(), range.count - begin);
    BlockExponents all;
    for (size_t input = 0; input < inputs(); ++input) {  // [CALL-6]
      const BlockRange found = kernels_.range[row(collective_.type)](source(input, range.begin + begin), n);
      all.largest = std::max(all.largest, found.max_exponent);
      all.least = std::max(all.least, found.least);
      if (found.has_nonfinite) put_word(words, flags + b / kBlocksPerFlag, 1);
    }
    put_word(words, b, all.largest);
    put_word(words, blocks + b, all.least);
  }
  return total;
}

bool IntegerCodec::plausible_call(size_t g, const uint8_t* words, size_t n) const {
  if (n != plan_.call_words(g)) return false;
  if (n == 0) return true;
  const size_t blocks = plan_.blocks_of_superblock(g);
  for (size_t i = 0; i < n; ++i) {  // [MAX-3]
    if (Witness::guarded_value(get_word(words, i)) > (i < 2 * blocks ? 255U : 1U)) return false;
  }
  for (size_t b = 0; b < blocks; ++b) {
    if (!plausible(exponents_of(words, blocks, b))) return false;
  }
  return true;
}

void IntegerCodec::decode_call(const uint8_t* words, size_t n, Superblock* superblock) const {
  const size_t blocks = plan_.blocks_of_superblock(superblock->number);
  SWITCHML_ASSERT(n == plan_.call_words(superblock->number));
  for (size_t b = 0; b < blocks; ++b) {
    const BlockExponents all = exponents_of(words, blocks, b);
    superblock->exponents[b] = all.largest;
    superblock->widths[b] = widths_.of(all);
  }
  for (size_t f = 2 * blocks; f < n; ++f) {
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

template <typename See>
void IntegerCodec::for_each_piece(ElementRange range, const Superblock& superblock, const See& see) const {
  const size_t block = plan_.block_elements();
  for (size_t done = 0; done < range.count;) {
    const size_t offset = range.begin + done - superblock.range.begin;
    const size_t n = std::min(block - offset % block, range.count - done);  // A chunk may begin inside a block.
    const Width width = superblock.widths[offset / block];
    see(Piece{{range.begin + done, n}, superblock.exponents[offset / block], width, words_of(width, n)});
    done += n;
  }
}

void IntegerCodec::encode_piece(size_t input, const Piece& piece, uint8_t* words) const {  // [WORD-12]
  alignas(64) std::array<uint8_t, kMaxBlockElements * kWordBytes> digits;
  const size_t type = row(collective_.type);
  const size_t n = piece.range.count;
  const uint8_t* from = source(input, piece.range.begin);
  if (piece.width == Width::kNone) return;
  const int bits = widths_.bits(piece.width);
  if (piece.width <= Width::k32) {
    const bool is_word = piece.width == Width::k32;
    kernels_.quantize[type](from, is_word ? words : digits.data(), n, quantize_scale(piece.exponent, bits));
    if (!is_word) kernels_.pack_digits(digits.data(), words, n);
  } else {
    uint8_t* const rest = words + n * kWordBytes;
    const bool is_double = piece.width == Width::k64;
    kernels_.quantize_wide[type](from, words, is_double ? rest : digits.data(), n,
                                 quantize_exponent(piece.exponent, bits), widths_.low_bits(piece.width));
    if (!is_double) kernels_.pack_digits(digits.data(), rest, n);
  }
}

size_t IntegerCodec::encode_elements(size_t input, ElementRange range, uint8_t* words) const {
  const bool minimum = collective_.op == ReduceOp::kMin;
  const uint8_t* from = source(input, range.begin);
  if (is_floating(collective_.type)) {
    kernels_.order[row(collective_.type)](from, words, range.count, minimum);  // [WORD-2, WORD-3]
  } else if (collective_.type == ElementType::kInt64) {
    kernels_.split64(from, words, range.count);  // [WORD-6]
  } else {
    kernels_.widen[int_row(collective_.type)](from, words, range.count, minimum);  // [WORD-4, WORD-5]
  }
  return range.count * plan_.words_per_element();
}

size_t IntegerCodec::encode_data(ElementRange range, const Superblock* superblock, uint8_t* words) const {
  if (!plan_.with_exponents()) {
    return combine(range, operation(Stage::kData), words,
                   [&](size_t input, ElementRange part, uint8_t* to) { return encode_elements(input, part, to); });
  }
  size_t n = 0;
  for_each_piece(range, *superblock, [&](const Piece& piece) {
    n += combine(piece.range, wire::Operation::kSum, words + n * kWordBytes,
                 [&](size_t input, ElementRange, uint8_t* to) {
                   encode_piece(input, piece, to);
                   return piece.words;
                 });
  });
  return n;
}

// Decodes the part of `range` that the caller wants.
void IntegerCodec::decode_data(const uint8_t* words, ElementRange range, const Superblock* superblock) const {
  const ElementRange wanted = wanted_of(range);
  if (wanted.count == 0) return;
  if (!plan_.with_exponents()) {
    words += (wanted.begin - range.begin) * plan_.words_per_element() * kWordBytes;
    return decode_words(words, target(wanted.begin), wanted.count);
  }
  for_each_piece(range, *superblock, [&](const Piece& piece) {
    const ElementRange part = wanted_of(piece.range);
    if (part.count > 0) decode_piece(words, piece, part);
    words += piece.words * kWordBytes;
  });
  if (superblock->has_nonfinite) {
    const uint8_t* classes = superblock->classes + (wanted.begin - superblock->range.begin);
    write_nonfinite(collective_.type, target(wanted.begin), classes, wanted.count);  // [WORD-10]
  }
}

// The caller wants what its output holds.
ElementRange IntegerCodec::wanted_of(ElementRange range) const {
  const size_t begin = std::max(range.begin, operands_.output.begin);
  const size_t end = std::min(range.begin + range.count, operands_.output.end);
  return {begin, end - std::min(begin, end)};
}

void IntegerCodec::decode_piece(const uint8_t* words, const Piece& piece, ElementRange wanted) const {
  alignas(64) std::array<uint8_t, kMaxBlockElements * kWordBytes> digits;
  const size_t type = row(collective_.type);
  const size_t n = piece.range.count;
  const size_t skipped = (wanted.begin - piece.range.begin) * kWordBytes;
  uint8_t* const to = target(wanted.begin);
  const auto divisor = static_cast<float>(operands_.divisor);
  if (piece.width == Width::kNone) {
    std::memset(to, 0, wanted.count * element_bytes(collective_.type));
    return;
  }
  const int bits = widths_.bits(piece.width);
  const uint8_t* rest = words + n * kWordBytes;
  const bool has_digits = piece.width == Width::k16 || piece.width == Width::k48;
  if (has_digits) kernels_.unpack_digits(piece.width == Width::k16 ? words : rest, digits.data(), n);
  if (piece.width <= Width::k32) {
    kernels_.dequantize[type]((has_digits ? digits.data() : words) + skipped, to, wanted.count,
                              dequantize_scale(piece.exponent, bits), divisor);
  } else {
    kernels_.dequantize_wide[type](words + skipped, (has_digits ? digits.data() : rest) + skipped, to, wanted.count,
                                   -quantize_exponent(piece.exponent, bits), widths_.low_bits(piece.width), divisor);
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

// All ranks' counts together would not fit, all hosts' do.
size_t IntegerCodec::encode_nonfinite(ElementRange range, uint8_t* words) const {  // [CALL-9]
  const size_t n = combine(range, wire::Operation::kSum, words, [&](size_t input, ElementRange part, uint8_t* to) {
    kernels_.classify[row(collective_.type)](source(input, part.begin), to, part.count);
    return part.count;
  });
  for (size_t i = 0; i < n && inputs() > 1; ++i) put_word(words, i, counted_once(get_word(words, i)));
  return n;
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
  const size_t n = (offset + range.count + block - 1) / block - first;
  // Needs no key: the witness' keyed hash covers it.
  return fnv1a(superblock->widths.data() + first, n, fnv1a(superblock->exponents.data() + first, n));
}

}  // namespace switchml
