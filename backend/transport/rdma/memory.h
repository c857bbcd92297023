// Memory that a card may read and write.
#pragma once

#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "transport/frame_memory.h"
#include "transport/rdma/verbs.h"
#include "transport/transport.h"

namespace switchml::rdma {

/// Whether all of it lies in the region.
inline bool lies_in(const ibv_mr& region, const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(region.addr), at = reinterpret_cast<uintptr_t>(data);
  return at >= begin && at + bytes <= begin + region.length;
}

/// Gives out memory that is registered with a protection domain, which outlives this. One thread.
class RegisteredMemory {
 public:
  RegisteredMemory(const Verbs& verbs, ibv_pd* domain, int access) : verbs_(verbs), domain_(domain), access_(access) {}

  /// Zeroed, 64-byte aligned, as long as this lives. An error where the system pins no more.
  Result<uint8_t*> allocate(size_t bytes) {
    uint8_t* data = nullptr;
    try {
      data = memory_.allocate(bytes);
    } catch (const std::bad_alloc&) {
      return Status(Code::kUnavailable, "the system has no memory for frames (" + std::to_string(bytes) +
                                            " bytes): raise the limit of the address space (ulimit -v)");
    }
    auto region = verbs_.memory_region(domain_, data, bytes, access_);
    if (!region.ok()) return region.status();
    regions_.push_back(std::move(region.value()));
    return data;
  }

  /// The region that all of it lies in; null: none.
  const ibv_mr* find(const uint8_t* data, size_t bytes) const {
    for (const Owned<ibv_mr>& region : regions_) {
      if (lies_in(*region, data, bytes)) return region.get();
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

/// Memory of tensors, registered piece by piece when it is first needed, for as long as this lives. One thread.
class TensorRegions {
 public:
  /// Pieces beyond these are not registered: what lies there is copied.
  static constexpr size_t kMostRegions = 1024;

  TensorRegions(const Verbs& verbs, ibv_pd* domain) : verbs_(verbs), domain_(domain) {}

  void use(std::shared_ptr<const TensorMemory> tensors) { tensors_ = std::move(tensors); }

  /// The region that all of it lies in; null: none.
  const ibv_mr* find(const void* data, size_t bytes) {
    if (last_ != nullptr && lies_in(*last_, data, bytes)) return last_;
    if (tensors_ == nullptr) return nullptr;
    const TensorMemory::Extent extent = tensors_->extent_of(data, bytes);
    if (extent.data == nullptr) return nullptr;
    const auto it = regions_.find({extent.data, extent.bytes});
    last_ = it == regions_.end() ? add(extent) : it->second.get();
    return last_;
  }

 private:
  const ibv_mr* add(const TensorMemory::Extent& extent) {
    if (is_full_) return nullptr;
    auto region =
        regions_.size() < kMostRegions
            ? verbs_.memory_region(domain_, extent.data, extent.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
            : Result<Owned<ibv_mr>>(Status(Code::kUnavailable, "there are too many of them"));
    if (region.ok()) {
      return regions_.emplace(std::pair(extent.data, extent.bytes), std::move(region.value())).first->second.get();
    }
    is_full_ = true;
    SWITCHML_LOG(kWarning) << "further tensors are copied, not sent from where they are: " << region.status().message();
    return nullptr;
  }

  const Verbs verbs_;
  ibv_pd* const domain_;
  std::shared_ptr<const TensorMemory> tensors_;
  std::map<std::pair<uint8_t*, size_t>, Owned<ibv_mr>> regions_;  // end before the tensors
  const ibv_mr* last_ = nullptr;
  bool is_full_ = false;
};

}  // namespace switchml::rdma
