#include "shm/reducer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "quant/kernels.h"

namespace switchml::shm {

namespace {

/// What goes past the caches is made here first, in the first cache, and then written by whole lines. Of any type a
/// whole number of blocks.
constexpr size_t kStagedBytes = 16 * 1024;
using Staged = std::array<uint8_t, kStagedBytes>;

}  // namespace

void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores) {
  if (bytes == 0) return;
  if (stores == Stores::kPastCaches) return quant::kernels().stream(from, frame, bytes);
  std::memcpy(frame, from, bytes);
}

void reduce_chunk(const Reduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores) {
  if (stores == Stores::kCached) return quant::reduce(reduction, frames, ranks, n, out);
  const size_t size = element_bytes(reduction.type);
  alignas(64) Staged staged;
  const size_t most = staged.size() / size;
  std::array<const uint8_t*, kMaxWorkers> parts;
  for (size_t first = 0; first < n; first += most) {
    const size_t elements = std::min(n - first, most);
    for (int rank = 0; rank < ranks; ++rank) parts[static_cast<size_t>(rank)] = frames[rank] + first * size;
    quant::reduce(reduction, parts.data(), ranks, elements, staged.data());
    quant::kernels().stream(staged.data(), out + first * size, elements * size);
  }
}

}  // namespace switchml::shm
