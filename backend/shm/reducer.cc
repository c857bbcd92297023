#include "shm/reducer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "kernels/kernels.h"

namespace switchml::shm {

namespace {

/// What bypasses the caches, or goes to several places, is made here first, in L1. Of any type a whole number
/// of blocks.
constexpr size_t kStagedBytes = 16 * 1024;
using Staged = std::array<uint8_t, kStagedBytes>;

/// Elements [first, first + n) of a result to the part of the targets that wants them.
void deliver(const uint8_t* from, size_t size, size_t first, size_t n, const Target* targets, size_t count) {
  for (const Target* target = targets; target != targets + count; ++target) {
    const size_t begin = std::max(first, target->begin);
    const size_t end = std::min(first + n, target->end);
    if (begin >= end) continue;
    const uint8_t* source = from + (begin - first) * size;
    uint8_t* to = target->to + (begin - target->begin) * size;
    if (source != to) fill_frame(source, (end - begin) * size, to, target->stores);
  }
}

}  // namespace

void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores) {
  if (bytes == 0) return;
  if (stores == Stores::kNonTemporal) return kernels().copy_non_temporal(from, frame, bytes);
  std::memcpy(frame, from, bytes);
}

void reduce_chunk(const ElementReduction& reduction, const uint8_t* const* inputs, int ranks, size_t first, size_t end,
                  const Target* targets, size_t count) {
  if (count == 0 || first == end) return;
  const size_t size = element_bytes(reduction.type);
  std::array<const uint8_t*, kMaxHostRanks> parts;
  const auto reduce_to = [&](size_t n, uint8_t* to) {
    for (int rank = 0; rank < ranks; ++rank) parts[static_cast<size_t>(rank)] = inputs[rank] + first * size;
    reduce(reduction, parts.data(), ranks, n, to);
  };
  const bool whole = targets->begin <= first && targets->end >= end;
  const auto lies_in_it = [&](const uint8_t* input) { return input + targets->begin * size == targets->to; };
  if (count == 1 && whole && targets->stores == Stores::kCached && std::none_of(inputs, inputs + ranks, lies_in_it)) {
    return reduce_to(end - first, targets->to + (first - targets->begin) * size);
  }
  alignas(64) Staged staged;
  for (const size_t most = staged.size() / size; first < end; first += most) {
    const size_t elements = std::min(end - first, most);
    reduce_to(elements, staged.data());
    deliver(staged.data(), size, first, elements, targets, count);
  }
}

}  // namespace switchml::shm
