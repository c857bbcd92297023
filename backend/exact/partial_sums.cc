#include "exact/partial_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "exact/float_format.h"
#include "kernels/exact_sum.h"
#include "kernels/kernels.h"
#include "slots/partial_sum_room.h"

namespace switchml {

namespace {

static_assert(fixed_sum_bytes(ElementType::kFloat32) == FloatFormat::float32().fixed_bytes());
static_assert(fixed_sum_bytes(ElementType::kFloat16) == FloatFormat::float16().fixed_bytes());
static_assert(fixed_sum_bytes(ElementType::kBFloat16) == FloatFormat::bfloat16().fixed_bytes());
static_assert(fixed_sum_bytes(ElementType::kFloat64) == FloatFormat::float64().fixed_bytes());

template <typename T>
T load_at(const uint8_t* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof value, sizeof value);
  return value;
}

// ---- the bytes of a contribution ----

struct Head {
  uint16_t elements;
  uint16_t listed;
  uint16_t terms;
  uint16_t divisor;
};
static_assert(sizeof(Head) == kPartialSumHead);

void write_head(const PartialSum& sum, uint8_t* out) {
  const Head head{static_cast<uint16_t>(sum.elements), static_cast<uint16_t>(sum.listed),
                  static_cast<uint16_t>(sum.terms), static_cast<uint16_t>(sum.divisor)};
  std::memcpy(out, &head, sizeof head);
}

size_t bytes_of_numbers(ElementType type, size_t elements, size_t terms) {
  return elements * (terms > 0 ? terms * element_bytes(type) : wide_bytes(type));
}
size_t entry_bytes(ElementType type) { return kPartialSumIndex + fixed_sum_bytes(type); }
size_t bytes_of(ElementType type, size_t elements, size_t terms, size_t listed) {
  return kPartialSumHead + bytes_of_numbers(type, elements, terms) + listed * entry_bytes(type);
}

size_t listed_index(const PartialSum& sum, size_t entry) {
  return load_at<uint16_t>(sum.list + entry * entry_bytes(sum.type), 0);
}

size_t wide_size(ElementType type) { return type == ElementType::kFloat64 ? 8 : wide_bytes(type); }
double wide_number(const PartialSum& sum, size_t i) {
  return wide_size(sum.type) == 4 ? static_cast<double>(load_at<float>(sum.numbers, i))
                                  : load_at<double>(sum.numbers, i);
}

bool are_ascending(const PartialSum& sum) {
  size_t next = 0;
  for (size_t i = 0; i < sum.listed; ++i) {
    const size_t index = listed_index(sum, i);
    if (index < next || index >= sum.elements) return false;
    next = index + 1;
  }
  return true;
}

/// Whether elements that are listed are NaNs, as no sum takes them for numbers then.
bool are_nans(const PartialSum& sum) {
  for (size_t i = 0; i < sum.listed; ++i) {
    if (!std::isnan(wide_number(sum, listed_index(sum, i)))) return false;
  }
  return true;
}

// ---- elements that are added one by one ----

const uint8_t* low_numbers(const PartialSum& sum) { return sum.numbers + sum.elements * sizeof(double); }

double term(const PartialSum& sum, size_t i) {
  if (sum.type == ElementType::kFloat32) return static_cast<double>(load_at<float>(sum.numbers, i));
  if (sum.type == ElementType::kFloat64) return load_at<double>(sum.numbers, i);
  return number_of(load_at<uint16_t>(sum.numbers, i), format_of(sum.type));
}

/// Where the integer of element `i` is; null: it is not listed.
const uint8_t* integer_of(const PartialSum& sum, size_t i) {
  size_t begin = 0;
  size_t end = sum.listed;
  while (begin < end) {
    const size_t middle = (begin + end) / 2;
    const size_t index = listed_index(sum, middle);
    if (index == i) return sum.list + middle * entry_bytes(sum.type) + kPartialSumIndex;
    (index < i ? begin : end) = index < i ? middle + 1 : middle;
  }
  return nullptr;
}

void add_element(const PartialSum& sum, size_t i, ExactTotal* total) {
  if (sum.terms > 0) {
    for (size_t t = 0; t < sum.terms; ++t) total->add(term(sum, t * sum.elements + i));
    return;
  }
  if (const uint8_t* integer = integer_of(sum, i)) return total->add_fixed(integer, format_of(sum.type));
  total->add(wide_number(sum, i));
  if (sum.type != ElementType::kFloat64) return;
  const double low = load_at<double>(low_numbers(sum), i);
  if (low != 0) total->add(low);  // Zero says nothing, not even by its sign.
}

ExactTotal total_of(const PartialSum* parts, size_t count, size_t i) {
  ExactTotal total;
  for (size_t p = 0; p < count; ++p) add_element(parts[p], i, &total);
  return total;
}

// ---- the sources of a block ----

struct Sources {
  Sources(const PartialSum* parts, size_t count) {
    SWITCHML_ASSERT(count >= 1 && count <= kMaxWorkers);
    for (size_t p = 0; p < count; ++p) all[p] = {parts[p].numbers, parts[p].terms, parts[p].elements};
  }
  std::array<SumSource, kMaxWorkers> all;
};

/// Calls `add(first, n)` for each block, which returns the elements to be added again, and then `again(i)` for these.
template <typename Add, typename Again>
void each_block(size_t elements, const Add& add, const Again& again) {
  for (size_t first = 0; first < elements; first += kSumBlock) {
    SumMask bad = add(first, std::min(kSumBlock, elements - first));
    for (; bad != 0; bad &= bad - 1) again(first + static_cast<size_t>(__builtin_ctzll(bad)));
  }
}

// ---- sums in the wider float, and what that does not have ----

class Writer {
 public:
  /// Precondition: `room` has the numbers.
  Writer(const PartialSum& sum, size_t room, uint8_t* out)
      : sum_(sum),
        most_((room - bytes_of(sum.type, sum.elements, 0, 0)) / entry_bytes(sum.type)),
        numbers_(out + kPartialSumHead),
        list_(numbers_ + bytes_of_numbers(sum.type, sum.elements, 0)) {}

  uint8_t* high(size_t i) { return numbers_ + i * wide_size(sum_.type); }
  uint8_t* low(size_t i) { return numbers_ + (sum_.elements + i) * sizeof(double); }

  void put(size_t i, const ExactTotal& total) {
    const FloatFormat wide = wide_size(sum_.type) == 4 ? FloatFormat::float32() : FloatFormat::float64();
    uint64_t bits = total.rounded(1, wide);
    uint64_t low_bits = 0;
    if (total.is_finite() && !is_exact(bits, wide, total.finite(), &low_bits)) {
      bits = wide.quiet_nan();
      low_bits = 0;
      list(i, total.finite());
    }
    std::memcpy(high(i), &bits, wide_size(sum_.type));
    if (sum_.type == ElementType::kFloat64) std::memcpy(low(i), &low_bits, sizeof low_bits);
  }

  bool fits() const { return listed_ <= most_; }
  size_t listed() const { return listed_; }

 private:
  /// Whether the wide number with these bits is the sum; of float64, together with another one.
  bool is_exact(uint64_t bits, const FloatFormat& wide, const FixedPoint& sum, uint64_t* low_bits) const {
    if ((bits & ~wide.sign()) == wide.limit) return false;
    FixedPoint rest = sum;
    rest.add(-number_of(bits, wide));
    if (rest.is_zero() || sum_.type != ElementType::kFloat64) return rest.is_zero();
    *low_bits = rest.rounded(1, wide);
    rest.add(-number_of(*low_bits, wide));
    return rest.is_zero();
  }
  void list(size_t i, const FixedPoint& sum) {
    if (listed_++ >= most_) return;
    uint8_t* entry = list_ + (listed_ - 1) * entry_bytes(sum_.type);
    const auto index = static_cast<uint16_t>(i);
    std::memcpy(entry, &index, sizeof index);
    sum.store(entry + kPartialSumIndex, format_of(sum_.type));
  }

  const PartialSum& sum_;
  const size_t most_;
  uint8_t* const numbers_;
  uint8_t* const list_;
  size_t listed_ = 0;
};

/// 0: it does not fit.
size_t write_sums(const PartialSum* parts, size_t count, size_t room, uint8_t* out) {
  PartialSum sum;
  sum.type = parts->type;
  sum.elements = parts->elements;
  sum.divisor = parts->divisor;
  if (bytes_of(sum.type, sum.elements, 0, 0) > room) return 0;
  const Sources sources(parts, count);
  Writer writer(sum, room, out);
  each_block(
      sum.elements,
      [&](size_t first, size_t n) {
        return kernels().partial_sums->sum_to_wide(sum.type, sources.all.data(), count, first, n, writer.high(first),
                                                   writer.low(first));
      },
      [&](size_t i) {
        if (writer.fits()) writer.put(i, total_of(parts, count, i));
      });
  if (!writer.fits()) return 0;
  sum.listed = writer.listed();
  write_head(sum, out);
  return bytes_of(sum.type, sum.elements, 0, sum.listed);
}

/// The terms of all, one after the other. Precondition: all have terms, and there is room.
size_t write_terms(const PartialSum* parts, size_t count, size_t terms, uint8_t* out) {
  PartialSum all = *parts;
  all.terms = terms;
  all.listed = 0;
  write_head(all, out);
  uint8_t* to = out + kPartialSumHead;
  for (size_t p = 0; p < count; ++p) {
    const size_t bytes = bytes_of_numbers(parts[p].type, parts[p].elements, parts[p].terms);
    std::memcpy(to, parts[p].numbers, bytes);
    to += bytes;
  }
  return static_cast<size_t>(to - out);
}

/// Terms of each element where all have terms; 0: some have sums, or these are too many.
size_t terms_together(const PartialSum* parts, size_t count) {
  size_t terms = 0;
  for (size_t p = 0; p < count; ++p) {
    if (parts[p].terms == 0) return 0;
    terms += parts[p].terms;
  }
  return terms <= kMaxWorkers ? terms : 0;
}

}  // namespace

std::optional<PartialSum> parse_partial_sum(ElementType type, const uint8_t* payload, size_t bytes) {  // [PART-7]
  if (bytes < kPartialSumHead) return std::nullopt;
  Head head;
  std::memcpy(&head, payload, sizeof head);
  if (head.elements == 0 || head.terms > kMaxWorkers) return std::nullopt;
  if (head.divisor != 0 && (head.divisor <= kMaxHeaderDivisor || head.divisor > kMaxRanks)) return std::nullopt;
  if (head.listed > (head.terms > 0 ? 0 : head.elements)) return std::nullopt;
  if (bytes != bytes_of(type, head.elements, head.terms, head.listed)) return std::nullopt;
  const PartialSum sum = view_partial_sum(type, payload);
  return are_ascending(sum) && are_nans(sum) ? std::optional<PartialSum>(sum) : std::nullopt;
}

PartialSum view_partial_sum(ElementType type, const uint8_t* payload) {
  Head head;
  std::memcpy(&head, payload, sizeof head);
  PartialSum sum;
  sum.type = type;
  sum.elements = head.elements;
  sum.divisor = head.divisor;
  sum.terms = head.terms;
  sum.listed = head.listed;
  sum.numbers = payload + kPartialSumHead;
  sum.list = sum.numbers + bytes_of_numbers(type, sum.elements, sum.terms);
  return sum;
}

PartialSum term_of(ElementType type, const uint8_t* elements, size_t count) {
  PartialSum sum;
  sum.type = type;
  sum.elements = count;
  sum.terms = 1;
  sum.numbers = elements;
  return sum;
}

// Terms where they take no more bytes, else sums; and terms again where too many of these would be listed. [PART-4]
size_t write_partial_sum(const PartialSum* parts, size_t count, size_t room, uint8_t* out) {
  const ElementType type = parts->type;
  const size_t elements = parts->elements;
  const size_t terms = terms_together(parts, count);
  const bool terms_fit = terms > 0 && bytes_of(type, elements, terms, 0) <= room;
  if (terms_fit && terms * element_bytes(type) <= wide_bytes(type)) return write_terms(parts, count, terms, out);
  const size_t most = terms_fit ? bytes_of(type, elements, terms, 0) : room;
  const size_t written = write_sums(parts, count, most, out);
  return written == 0 && terms_fit ? write_terms(parts, count, terms, out) : written;
}

void round_partial_sums(const PartialSum* parts, size_t count, uint32_t divisor, uint8_t* out) {
  const ElementType type = parts->type;
  const size_t size = element_bytes(type);
  const Sources sources(parts, count);
  each_block(
      parts->elements,
      [&](size_t first, size_t n) {
        return kernels().partial_sums->sum_to_type(type, sources.all.data(), count, first, n, divisor,
                                                   out + first * size);
      },
      [&](size_t i) {
        const uint64_t bits = total_of(parts, count, i).rounded(divisor, format_of(type));
        std::memcpy(out + i * size, &bits, size);
      });
}

}  // namespace switchml
