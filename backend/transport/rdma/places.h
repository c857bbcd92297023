// Memory that a peer writes whole messages into.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "transport/rdma/pair.h"

namespace switchml::rdma {

/// Two places for each slot, registered, from a multiple of 2^32 on. [RDMA-10]
class Places {
 public:
  /// For frames of so many bytes at most. An error where the system pins no more.
  static Result<Places> open(const Verbs& verbs, ibv_pd* domain, size_t slots, size_t frame_bytes) {
    Places places;
    places.slots_ = slots;
    while (size_t{1} << places.bits_ < frame_bytes) ++places.bits_;
    if (!places.map()) {
      return Status(Code::kUnavailable,
                    "memory of " + std::to_string(places.bytes()) +
                        " bytes at a multiple of 2^32 cannot be had: " + std::system_category().message(errno));
    }
    auto region = verbs.memory_region(domain, places.memory_.get(), places.bytes(),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!region.ok()) return region.status();
    places.region_ = std::move(region.value());
    return places;
  }

  bool are_for(size_t slots, size_t frame_bytes) const {
    return slots == slots_ && frame_bytes <= place_bytes() && frame_bytes > place_bytes() / 2;
  }
  size_t slots() const { return slots_; }
  size_t place_bytes() const { return size_t{1} << bits_; }
  /// Of all of them, in whole pages.
  size_t bytes() const { return ((2 * slots_ << bits_) + kPage - 1) / kPage * kPage; }
  /// Precondition: the slot is below slots().
  const uint8_t* place(uint16_t slot, uint32_t seq) const { return memory_.get() + offset(slot, seq, bits_); }
  static uint64_t offset(uint16_t slot, uint32_t seq, uint8_t bits) { return (2 * uint64_t{slot} + (seq & 1)) << bits; }
  PlaceMemory told() const { return {bits_, region_->rkey, reinterpret_cast<uintptr_t>(memory_.get())}; }

 private:
  Places() = default;

  static constexpr size_t kAlignment = size_t{1} << 32;
  static constexpr size_t kPage = 4096;

  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* data) const { ::munmap(data, bytes); }
  };

  // Addresses cost nothing: of many, those around the aligned ones are given back.
  bool map() {
    void* const all = ::mmap(nullptr, kAlignment + bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    auto* const begin = static_cast<uint8_t*>(all);
    const size_t before = (kAlignment - reinterpret_cast<uintptr_t>(begin) % kAlignment) % kAlignment;
    if (before > 0) ::munmap(begin, before);
    memory_ = {begin + before, Unmap{bytes()}};
    if (before < kAlignment) ::munmap(begin + before + bytes(), kAlignment - before);
    return true;
  }

  size_t slots_ = 0;
  uint8_t bits_ = 0;
  std::unique_ptr<uint8_t, Unmap> memory_{nullptr, Unmap{0}};
  Owned<ibv_mr> region_;  // ends before the memory
};

}  // namespace switchml::rdma
