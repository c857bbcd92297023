#include "engine/speculation.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/fnv.h"
#include "base/limits.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"

namespace switchml {

namespace {

constexpr size_t kWordsPerElement = 2;

// Elements from `begin` to the end of their block or of what is wanted, whichever comes first.
size_t piece(size_t begin, size_t end, size_t group_begin, size_t block) {
  return std::min(end - begin, block - (begin - group_begin) % block);
}

}  // namespace

Speculation::Speculation(const Collective& collective, const ChunkPlan& plan, const SessionParameters& session,
                         int call_slots)
    : collective_(collective),
      plan_(plan),
      window_(session.contributing_ranks()),
      chunk_elements_(session.payload_bytes / kWordBytes / kWordsPerElement),
      chunks_(0) {
  if (!plan.with_exponents() || plan.groups() != 1 || plan.blocks_of_group(0) > kMaxSpeculatedBlocks) return;
  const size_t needed = (plan.group(0).count + chunk_elements_ - 1) / chunk_elements_;
  // All of them must find room behind the call chunk, or the last would wait for its result: no round trip was saved.
  if (needed <= kMaxChunks && needed < static_cast<size_t>(call_slots)) chunks_ = needed;
}

ElementRange Speculation::chunk(size_t c) const {
  SWITCHML_ASSERT(c < chunks_);
  const ElementRange group = plan_.group(0);
  const size_t begin = c * chunk_elements_;
  return {group.begin + begin, std::min(chunk_elements_, group.count - begin)};
}

void Speculation::predict(const uint8_t* exponents, GroupBuffer* group) const {
  const size_t blocks = plan_.blocks_of_group(0);
  for (size_t b = 0; b < blocks; ++b) group->tops[b] = window_.top(exponents[b]);
}

uint64_t Speculation::windows_hash(const GroupBuffer& group) const {
  return fnv1a(group.tops.data(), plan_.blocks_of_group(0));
}

size_t Speculation::blocks_outside(const GroupBuffer& group) const {
  size_t outside = 0;
  for (size_t b = 0; b < plan_.blocks_of_group(0); ++b) {
    outside += window_.covers(group.tops[b], group.exponents[b]) ? 0 : 1;
  }
  return outside;
}

size_t Speculation::encode(ElementRange range, const GroupBuffer& group, uint8_t* words) const {
  const size_t block = plan_.block_elements();
  uint8_t* second = words + range.count * kWordBytes;
  for (size_t done = 0; done < range.count;) {
    const size_t at = range.begin + done;
    const size_t n = piece(at, range.begin + range.count, group.range.begin, block);
    const uint8_t top = group.tops[(at - group.range.begin) / block];
    encode_piece({at, n}, top, words + done * kWordBytes, second + done * kWordBytes);
    done += n;
  }
  return range.count * kWordsPerElement;
}

// A worker that speaks for several ranks sends what the switch would make of their words.
void Speculation::encode_piece(ElementRange range, uint8_t top, uint8_t* first, uint8_t* second) const {
  const size_t offset = range.begin * element_bytes(collective_.type);
  const auto encode = [&](const void* input, uint8_t* a, uint8_t* b) {
    window_.encode(collective_.type, static_cast<const uint8_t*>(input) + offset, range.count, top, a, b);
  };
  if (collective_.inputs.empty()) return encode(collective_.input, first, second);
  std::array<uint8_t, kMaxBlockElements * kWordBytes> one, other;
  alignas(64) std::array<int32_t, kMaxBlockElements> all_first{}, all_second{};
  for (const void* input : collective_.inputs) {
    encode(input, one.data(), other.data());
    quant::kernels().add(all_first.data(), one.data(), range.count);
    quant::kernels().add(all_second.data(), other.data(), range.count);
  }
  quant::kernels().load(all_first.data(), first, range.count);
  quant::kernels().load(all_second.data(), second, range.count);
}

void Speculation::decode(const uint8_t* words, ElementRange range, const GroupBuffer& group) const {
  const size_t block = plan_.block_elements();
  const size_t bytes = element_bytes(collective_.type);
  const auto dequantize = quant::kernels().dequantize[quant::float_row(collective_.type)];
  const size_t end = std::min(range.begin + range.count, collective_.output_end);
  std::array<uint8_t, kMaxBlockElements * kWordBytes> sums;
  for (size_t at = std::max(range.begin, collective_.output_begin); at < end;) {
    const size_t n = piece(at, end, group.range.begin, block);
    const size_t b = (at - group.range.begin) / block;
    const uint8_t* first = words + (at - range.begin) * kWordBytes;
    window_.decode(first, first + range.count * kWordBytes, n, group.tops[b], group.exponents[b], sums.data());
    dequantize(sums.data(), static_cast<uint8_t*>(collective_.output) + (at - collective_.output_begin) * bytes, n,
               quant::dequantize_scale(group.exponents[b], window_.bits()), static_cast<float>(collective_.divisor));
    at += n;
  }
}

}  // namespace switchml
