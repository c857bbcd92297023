// Memory that a card may read and write.
#pragma once

#include <vector>

#include "transport/frame_memory.h"
#include "transport/rdma/verbs.h"

namespace switchml::rdma {

/// Gives out memory that is registered with a protection domain, which outlives this. One thread.
class RegisteredMemory {
 public:
  RegisteredMemory(const Verbs& verbs, ibv_pd* domain, int access) : verbs_(verbs), domain_(domain), access_(access) {}

  /// Zeroed, 64-byte aligned, as long as this lives. An error where the system pins no more.
  Result<uint8_t*> allocate(size_t bytes) {
    uint8_t* const data = memory_.allocate(bytes);
    auto region = verbs_.memory_region(domain_, data, bytes, access_);
    if (!region.ok()) return region.status();
    regions_.push_back(std::move(region.value()));
    return data;
  }

  /// The region that all of it lies in; null: none.
  const ibv_mr* find(const uint8_t* data, size_t bytes) const {
    for (const Owned<ibv_mr>& region : regions_) {
      const auto* const begin = static_cast<const uint8_t*>(region->addr);
      if (data >= begin && data + bytes <= begin + region->length) return region.get();
    }
    return nullptr;
  }

 private:
  const Verbs verbs_;
  ibv_pd* const domain_;
  const int access_;
  FrameMemory memory_;
  std::vector<Owned<ibv_mr>> regions_;  // end before the memory
};

}  // namespace switchml::rdma
