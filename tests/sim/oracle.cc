#include "oracle.h"

#include <algorithm>
#include <cmath>

#include "exact.h"
#include "formats.h"

namespace switchml::sim {

namespace {

using Tensors = std::vector<std::vector<uint8_t>>;

// The largest b with n * 2^b <= 2^(w-1), or below that where the type has more than b bits.
int magnitude_bits(int workers, int w, const Format& format) {
  int b = 0;
  const auto fits = [&](int bits) {
    const double sum = workers * std::ldexp(1.0, bits);
    return bits <= format.mantissa_bits ? sum < std::ldexp(1.0, w - 1) : sum <= std::ldexp(1.0, w - 1);
  };
  while (b < w - 2 && fits(b + 1)) ++b;
  return b;
}

// Magnitude bits of an element that has w bits on its way.
int bits_of_width(int workers, int w, const Format& format) {
  if (w <= 32) return magnitude_bits(workers, w, format);
  int spare = 0;
  while ((1 << spare) < workers) ++spare;
  return magnitude_bits(workers, 32, format) + w - 32 - spare;
}

// The 8 exponent bits of a finite value as a float32.
int biased_exponent(double value) {
  if (std::fabs(value) < std::ldexp(1.0, -126)) return 0;
  return std::ilogb(value) + 127;
}

double as_float32(double value) { return kFloat32Format.decode(kFloat32Format.encode(value)); }

class FloatSum {
 public:
  FloatSum(const Call& call, const Tensors& inputs, const Packets& packets)
      : call_(call),
        inputs_(inputs),
        format_(format_of(call.type)),
        significant_bits_(packets.significant_bits),
        block_(std::min<size_t>(element_bytes(call.type) == 2 ? 64 : 256, packets.payload_bytes / 4)) {}

  uint64_t element(size_t i) {
    if (i / block_ != known_block_) find_exponent(i / block_);
    return sum(i);
  }

 private:
  double value(size_t rank, size_t i) const {
    return format_.decode(load_raw(inputs_[rank].data(), i, element_bytes(call_.type)));
  }

  void find_exponent(size_t block) {
    known_block_ = block;
    exponent_ = 1;
    double least = INFINITY;
    for (size_t rank = 0; rank < inputs_.size(); ++rank) {
      for (size_t i = block * block_; i < std::min(call_.count, (block + 1) * block_); ++i) {
        const double x = value(rank, i);
        if (!std::isfinite(x)) continue;
        exponent_ = std::max(exponent_, biased_exponent(x));
        if (x != 0) least = std::min(least, std::fabs(x));
      }
    }
    // Half a unit is less than 2^-kept of any term. Terms that are no normal floats, and the least one that
    // is, count as 2^-149.
    if (least <= std::ldexp(1.0, -126)) least = std::ldexp(1.0, -149);
    for (const int width : {16, 32, 48, 64}) {
      if (width == 16 && call_.type == ElementType::kFloat32 && !significant_bits_) continue;
      bits_ = bits_of_width(static_cast<int>(inputs_.size()), width, format_);
      const int kept = std::min(significant_bits_.value_or(0), format_.mantissa_bits + 1);
      if (std::ldexp(1.0, exponent_ - 127 - bits_ + kept) < least) break;
    }
  }

  uint64_t sum(size_t i) const {
    int64_t units = 0;
    bool nan = false;
    bool positive = false;
    bool negative = false;
    for (size_t rank = 0; rank < inputs_.size(); ++rank) {
      const double x = value(rank, i);
      nan |= std::isnan(x);
      positive |= std::isinf(x) && x > 0;
      negative |= std::isinf(x) && x < 0;
      if (std::isfinite(x)) units += std::llrint(std::ldexp(x, bits_ - exponent_ + 126));
    }
    if (nan || (positive && negative)) return format_.quiet_nan();
    if (positive || negative) return format_.infinity(negative);
    const double total = as_float32(std::ldexp(static_cast<float>(units), exponent_ - 126 - bits_));
    return format_.encode(call_.divisor == 1 ? total : as_float32(total / static_cast<double>(call_.divisor)));
  }

  const Call& call_;
  const Tensors& inputs_;
  Format format_;
  std::optional<int> significant_bits_;
  size_t block_;
  int bits_ = 0;
  size_t known_block_ = SIZE_MAX;
  int exponent_ = 1;
};

// -0 below +0; NaN wins always.
uint64_t extreme_float(const Call& call, const Tensors& inputs, size_t i) {
  const Format format = format_of(call.type);
  uint64_t best = 0;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    const uint64_t raw = load_raw(inputs[rank].data(), i, element_bytes(call.type));
    const double x = format.decode(raw);
    if (std::isnan(x)) return format.quiet_nan();
    const double held = format.decode(best);
    const bool above = x > held || (x == held && std::signbit(held) && !std::signbit(x));
    const bool below = x < held || (x == held && std::signbit(x) && !std::signbit(held));
    if (rank == 0 || (call.op == ReduceOp::kMax ? above : below)) best = raw;
  }
  return best;
}

int64_t integer(ElementType type, uint64_t raw) {
  switch (type) {
    case ElementType::kInt8: return static_cast<int8_t>(raw);
    case ElementType::kUInt8: return static_cast<uint8_t>(raw);
    case ElementType::kInt16: return static_cast<int16_t>(raw);
    case ElementType::kInt32: return static_cast<int32_t>(raw);
    default: return static_cast<int64_t>(raw);
  }
}

// The low bits are those of a narrower type.
int64_t combine(ReduceOp op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kProduct: return static_cast<int64_t>(x * y);
    case ReduceOp::kAnd: return static_cast<int64_t>(x & y);
    case ReduceOp::kOr: return static_cast<int64_t>(x | y);
    case ReduceOp::kXor: return static_cast<int64_t>(x ^ y);
    default: return static_cast<int64_t>(x + y);
  }
}

uint64_t integer_result(const Call& call, const Tensors& inputs, size_t i) {
  int64_t total = 0;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    uint64_t raw = load_raw(inputs[rank].data(), i, element_bytes(call.type));
    if (call.type == ElementType::kBool) raw = raw != 0 ? 1 : 0;
    const int64_t x = integer(call.type, raw);
    total = rank == 0 ? x : combine(call.op, total, x);
  }
  return static_cast<uint64_t>(total);
}

// [NSUM-1 to NSUM-3] The terms are exact in float32.
std::vector<uint64_t> as_float32(ElementType type, const uint8_t* element) {
  std::vector<uint64_t> all;
  if (!is_scaled(type)) {
    return {kFloat32Format.encode(format_of(type).decode(load_raw(element, 0, element_bytes(type))))};
  }
  for (size_t i = 1; i < kScaledBytes; ++i) {
    const double x = type == ElementType::kScaledInt8 ? static_cast<double>(static_cast<int8_t>(element[i]))
                                                      : format_of(ElementType::kFloat8E4M3).decode(element[i]);
    all.push_back(element[0] == 255 ? kFloat32Format.quiet_nan()
                                    : kFloat32Format.encode(std::ldexp(x, element[0] - 127)));
  }
  return all;
}

void sum_to_float32(const Call& call, const Tensors& inputs, uint8_t* out) {
  const size_t values = values_per_element(call.type);
  for (size_t i = 0; i < call.count; ++i) {
    std::vector<std::vector<uint64_t>> terms(values);
    for (const auto& input : inputs) {
      const auto one = as_float32(call.type, input.data() + i * element_bytes(call.type));
      for (size_t v = 0; v < values; ++v) terms[v].push_back(one[v]);
    }
    for (size_t v = 0; v < values; ++v) {
      store_raw(out, i * values + v, 4, exact_mean(terms[v], call.divisor, kFloat32Format));
    }
  }
}

uint64_t exact_float(const Call& call, const Tensors& inputs, size_t i) {
  if (call.op == ReduceOp::kMin || call.op == ReduceOp::kMax) return extreme_float(call, inputs, i);
  const Format format = format_of(call.type);
  std::vector<uint64_t> all;
  for (const auto& input : inputs) all.push_back(load_raw(input.data(), i, element_bytes(call.type)));
  if (call.op == ReduceOp::kSum) return exact_mean(all, call.divisor, format);
  double product = 1;
  for (const uint64_t raw : all) product *= format.decode(raw);
  return format.encode(product);
}

}  // namespace

std::vector<uint8_t> expected_result(const Call& call, int workers, const Packets& packets) {
  if (call.movement == Movement::kBroadcast) return input_of(call, call.root);
  if (call.movement != Movement::kNone) return joined_inputs(call, workers);
  Tensors inputs;
  for (int worker = 0; worker < workers; ++worker) {
    for (int rank = 0; rank < call.ranks_of(worker); ++rank) inputs.push_back(input_of(call, worker, rank));
  }
  const size_t bytes = element_bytes(call.type);
  std::vector<uint8_t> out(call.count * result_bytes(call.op, call.type));
  if (call.op == ReduceOp::kSumToFloat32) {
    sum_to_float32(call, inputs, out.data());
    return out;
  }
  FloatSum float_sum(call, inputs, packets);
  for (size_t i = 0; i < call.count; ++i) {
    uint64_t raw = 0;
    if (!is_floating(call.type)) {
      raw = integer_result(call, inputs, i);
    } else if (packets.exact) {
      raw = exact_float(call, inputs, i);
    } else {
      raw = call.op == ReduceOp::kSum ? float_sum.element(i) : extreme_float(call, inputs, i);
    }
    store_raw(out.data(), i, bytes, raw);
  }
  return out;
}

}  // namespace switchml::sim
