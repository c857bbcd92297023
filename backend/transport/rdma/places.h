// Memory that a peer writes whole messages into.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "transport/rdma/pair.h"
#include "transport/transport.h"

namespace switchml::rdma {

/// Two places for each slot of a range, registered. They lie as if those of all slots began at a multiple of 2^32.
/// [RDMA-10]
class Places {
 public:
  /// Opens places for frames of so many bytes at most. An error where the system pins no more.
  static Result<Places> open(const Verbs& verbs, ibv_pd* domain, SlotRange slots, size_t frame_bytes) {
    Places places(slots);
    while (places.place_bytes() < frame_bytes) ++places.bits_;
    if (!places.map()) {
      return Status(Code::kUnavailable,
                    "memory of " + std::to_string(places.bytes()) +
                        " bytes behind a multiple of 2^32 cannot be had: " + std::system_category().message(errno));
    }
    auto region = verbs.memory_region(domain, places.base_ + places.offset(slots.first), places.bytes(),
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!region.ok()) return region.status();
    places.region_ = std::move(region.value());
    return places;
  }

  bool hold(size_t slot) const { return slot >= slots_.first && slot - slots_.first < slots_.count; }
  size_t place_bytes() const { return size_t{1} << bits_; }
  size_t bytes() const { return 2 * slots_.count << bits_; }
  /// Precondition: they hold the slot.
  const uint8_t* place(uint16_t slot, uint32_t seq) const { return base_ + offset(slot, seq, bits_); }
  static uint64_t offset(uint64_t slot, uint32_t seq, uint8_t bits) { return (2 * slot + (seq & 1)) << bits; }
  PlaceMemory told() const { return {bits_, region_->rkey, reinterpret_cast<uintptr_t>(base_)}; }

 private:
  static constexpr size_t kAlignment = size_t{1} << 32;

  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* data) const { ::munmap(data, bytes); }
  };

  explicit Places(SlotRange slots) : slots_(slots) {}
  size_t offset(size_t slot) const { return offset(slot, 0, bits_); }

  // Addresses alone cost nothing: of many, those of the range's pages are kept, and become memory.
  bool map() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t all_bytes = 2 * kAlignment;  // the last slot's place is below 2^32
    void* const all = ::mmap(nullptr, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    auto* const begin = static_cast<uint8_t*>(all);
    base_ = begin + (kAlignment - reinterpret_cast<uintptr_t>(begin) % kAlignment) % kAlignment;
    uint8_t* const first = base_ + offset(slots_.first) / page * page;
    uint8_t* const end = base_ + (offset(slots_.first) + bytes() + page - 1) / page * page;
    if (first > begin) ::munmap(begin, static_cast<size_t>(first - begin));
    ::munmap(end, static_cast<size_t>(begin + all_bytes - end));
    const auto kept = static_cast<size_t>(end - first);
    memory_ = {first, Unmap{kept}};
    return ::mprotect(first, kept, PROT_READ | PROT_WRITE) == 0;
  }

  SlotRange slots_;
  uint8_t bits_ = 0;
  uint8_t* base_ = nullptr;  // where the place of slot 0 would be
  std::unique_ptr<uint8_t, Unmap> memory_{nullptr, Unmap{0}};
  Owned<ibv_mr> region_;  // ends before the memory
};

}  // namespace switchml::rdma
