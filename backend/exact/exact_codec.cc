#include "exact/exact_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "exact/partial_sums.h"
#include "exact/reduction.h"

namespace switchml {

namespace {

// Shorter chunks are mostly header.
constexpr size_t kLeastPacked = 256;

ElementRange common(ElementRange a, ElementRange b) {
  const size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.begin + a.count, b.begin + b.count)) - begin};
}

}  // namespace

bool ExactCodec::divides_parts() const {
  // [ELANE-8, ETREE-6]
  const bool may_overflow = collective_.type == ElementType::kFloat16 || is_float8(collective_.type);
  return operands_ != nullptr && (may_overflow || operands_->divisor > kMaxHeaderDivisor) &&
         collective_.op == ReduceOp::kSum && operands_->divisor > 1 && !is_partial_sum_ &&
         (tree_ || !operands_->inputs.empty());
}

uint8_t ExactCodec::divisor() const {
  const bool divides =
      sums_floats(collective_.op, collective_.type) && !divides_parts() && operands_->divisor <= kMaxHeaderDivisor;
  return divides ? static_cast<uint8_t>(operands_->divisor) : uint8_t{1};
}

Packed ExactCodec::pack_from(const uint8_t* elements, ElementRange range, uint8_t* out) const {
  if (elements == nullptr || bytes(range) < kLeastPacked || !may_be_packed(collective_.op)) return {};
  const auto blocks = wire::Blocks::of(range.begin, range.count);
  return switchml::pack(elements, blocks, element_bytes(collective_.type), out);
}

Packed ExactCodec::pack(ElementRange range, uint8_t* out) const {
  return operands_ != nullptr ? pack_from(as_they_lie(range), range, out) : Packed();
}

size_t ExactCodec::encode(ElementRange range, uint8_t* out, size_t* left_out) const {
  const size_t size = element_bytes(collective_.type);
  const size_t bytes = range.count * size;
  if (bytes == 0) return 0;
  if (const uint8_t* elements = as_they_lie(range)) {
    std::memcpy(out, elements, bytes);
    return bytes;
  }
  if (operands_ == nullptr) return encode_moved(range, out);
  SWITCHML_ASSERT(operands_->inputs.size() <= kMaxHostRanks);
  if (is_partial_sum_) return encode_partial_sum(range, out);
  std::array<const uint8_t*, kMaxHostRanks> inputs;
  const bool alone = operands_->inputs.empty();
  const size_t count = alone ? 1 : operands_->inputs.size();
  for (size_t i = 0; i < count; ++i) {
    inputs[i] = static_cast<const uint8_t*>(alone ? operands_->input : operands_->inputs[i]) + range.begin * size;
  }
  const ElementReduction reduction{collective_.op, collective_.type, divides_parts() ? operands_->divisor : 1};
  reduce(reduction, inputs.data(), static_cast<int>(count), range.count, out);  // [ELANE-7]
  const Packed packed = pack_from(out, range, out);
  *left_out = packed.left_out;
  return packed.bytes > 0 ? packed.bytes : bytes;
}

// [PART-4]
size_t ExactCodec::encode_partial_sum(ElementRange range, uint8_t* out) const {
  const size_t first = range.begin * element_bytes(collective_.type);
  const bool alone = operands_->inputs.empty();
  const size_t count = alone ? 1 : operands_->inputs.size();
  const bool in_payload = operands_->divisor > kMaxHeaderDivisor;  // [PART-3]
  std::array<PartialSum, kMaxHostRanks> terms;
  for (size_t i = 0; i < count; ++i) {
    const void* input = alone ? operands_->input : operands_->inputs[i];
    terms[i] = term_of(collective_.type, static_cast<const uint8_t*>(input) + first, range.count);
    terms[i].divisor = in_payload ? operands_->divisor : 0;
  }
  const size_t bytes = write_partial_sum(terms.data(), count, payload_bytes_, out);
  SWITCHML_ASSERT(bytes > 0);  // [PART-9]
  return bytes;
}

bool ExactCodec::is_ready(ElementRange range) const {
  if (!has_pieces_) return collective_.is_ready(range.begin + range.count);
  if (gather_ == nullptr || collective_.ready == nullptr) return true;
  const ElementRange part = piece(worker_, range);
  return part.count == 0 || collective_.is_ready(part.begin + part.count - worker_ * collective_.count);
}

/// Whether no result overwrites elements that may still be sent: output and input are apart, or congruent.
bool ExactCodec::output_follows_input() const {
  const size_t size = element_bytes(collective_.type);
  const auto input = reinterpret_cast<uintptr_t>(collective_.input()),
             output = reinterpret_cast<uintptr_t>(output_.data);
  const size_t bytes = (output_.end - output_.begin) * result_size_;
  const bool apart = output + bytes <= input || output >= input + collective_.count * size;
  return apart || (output == input + output_.begin * size && result_size_ == size);
}

const uint8_t* ExactCodec::as_they_lie(ElementRange range) const {
  const auto* broadcast = std::get_if<Broadcast>(&collective_.kind);
  const bool has_all = operands_ != nullptr ? operands_->inputs.empty() && !divides_parts() && !is_partial_sum_
                                            : broadcast != nullptr && broadcast->root == static_cast<int>(worker_);
  if (!has_all || range.count == 0) return nullptr;
  return static_cast<const uint8_t*>(collective_.input()) + range.begin * element_bytes(collective_.type);
}

const uint8_t* ExactCodec::source(ElementRange range) const {
  return output_follows_input() ? as_they_lie(range) : nullptr;
}

uint8_t* ExactCodec::target(ElementRange range) const {
  if (has_pieces_ || range.count == 0) return nullptr;
  if (common(range, wanted()).count < range.count) return nullptr;
  return static_cast<uint8_t*>(output_.data) + (range.begin - output_.begin) * result_size_;
}

ElementRange ExactCodec::piece(size_t worker, ElementRange range) const {
  return common(range, {worker * collective_.count, collective_.count});
}

const uint8_t* ExactCodec::input_of(size_t worker) const {
  if (gather_ != nullptr) return worker == worker_ ? static_cast<const uint8_t*>(gather_->input) : nullptr;
  const auto& inputs = std::get<Scatter>(collective_.kind).inputs;
  return inputs.empty() ? nullptr : static_cast<const uint8_t*>(inputs[worker]);
}

uint8_t* ExactCodec::output_of(size_t worker) const {
  if (gather_ == nullptr) return worker == worker_ ? static_cast<uint8_t*>(output_.data) : nullptr;
  return gather_->receive_ranges.empty() ? nullptr : static_cast<uint8_t*>(gather_->receive_ranges[worker].data);
}

/// Whether `range` lies in this worker's own piece, which needs no result.
bool ExactCodec::is_own(ElementRange range) const { return piece(worker_, range).count == range.count; }

// A chunk across the pieces of several workers is the sum of their parts, each with zeros elsewhere.
size_t ExactCodec::encode_moved(ElementRange range, uint8_t* out) const {
  if (!has_pieces_) return 0;  // The root's elements are sent unchanged.
  bool any = false;
  for (size_t worker = range.begin / collective_.count; worker < workers_; ++worker) {
    const ElementRange part = piece(worker, range);
    if (part.count == 0) break;
    const uint8_t* input = input_of(worker);
    if (input == nullptr) continue;                                                               // [MOVED-6]
    if (!std::exchange(any, true) && part.count < range.count) std::memset(out, 0, range.count);  // [MOVED-6]
    std::memcpy(out + (part.begin - range.begin), input + (part.begin - worker * collective_.count), part.count);
  }
  if (gather_ != nullptr && is_own(range)) decode({out}, range);
  return any ? range.count : 0;
}

bool ExactCodec::wants(ElementRange range) const {
  if (gather_ != nullptr) return !gather_->receive_ranges.empty() && !is_own(range);  // [MOVED-3]
  if (has_pieces_) return piece(worker_, range).count > 0;                            // [MOVED-4]
  return common(range, wanted()).count > 0;                                           // [MOVED-2, MOVED-5]
}

ElementRange ExactCodec::wanted() const { return {output_.begin, output_.end - output_.begin}; }

void ExactCodec::report_written(ElementRange range) const {
  for (size_t worker = 0; gather_ != nullptr && worker < gather_->written.size(); ++worker) {
    const ElementRange part = piece(worker, range);
    const size_t begin = part.begin - worker * collective_.count;
    if (part.count > 0) collective_.report_gathered(worker, begin, begin + part.count);
  }
  const ElementRange part = has_pieces_ ? piece(worker_, range) : range;
  const size_t first = has_pieces_ ? worker_ * collective_.count : 0;
  if (part.count > 0) collective_.report_written(part.begin - first, part.begin + part.count - first);
}

void ExactCodec::decode(const ChunkView& chunk, ElementRange range) const {
  const size_t size = element_bytes(collective_.type);
  if (!has_pieces_) {
    const ElementRange part = common(range, wanted());
    if (part.count == 0) return;
    uint8_t* const to = static_cast<uint8_t*>(output_.data) + (part.begin - output_.begin) * result_size_;
    chunk.copy({part.begin - range.begin, part.count}, result_size_, to);
    return;
  }
  for (size_t worker = range.begin / collective_.count; worker < workers_; ++worker) {
    const ElementRange part = piece(worker, range);
    if (part.count == 0) break;
    uint8_t* output = output_of(worker);
    if (output == nullptr) continue;
    uint8_t* const to = output + (part.begin - worker * collective_.count) * size;
    chunk.copy({part.begin - range.begin, part.count}, size, to);
  }
}

}  // namespace switchml
