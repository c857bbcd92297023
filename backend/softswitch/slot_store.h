// SlotStore: the slots of one job. Allocated when the session opens, freed when it ends; no packet ever allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "softswitch/bitmap.h"
#include "softswitch/sequence_check.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// One version of a slot: the state of the use that it holds. Its words lie in the store.
struct SlotUse {
  SequencePair pair;
  WorkerSet contributed;
  uint32_t witness = 0;
  uint32_t words = 0;     // of the widest contribution so far
  uint16_t exponent = 0;  // maximum so far
  uint32_t lent = 0;      // the burst in which a sink was last given the frame; 0: never
  bool complete = false;  // the words are a result: network byte order, header in front
};

class SlotStore {
 public:
  /// Null where the memory cannot be had. Preconditions: slots > 0, payload a multiple of 64.
  static std::unique_ptr<SlotStore> create(int slots, size_t payload_bytes);
  /// Bytes that one slot takes, both versions.
  static size_t slot_bytes(size_t payload_bytes);
  ~SlotStore();
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;

  /// Precondition: slot < slots. The version is the parity of `seq`.
  SlotUse& use(uint16_t slot, uint32_t seq) { return uses_[index(slot, seq)]; }
  /// 64-byte aligned; `payload_bytes` of room.
  int32_t* words(uint16_t slot, uint32_t seq) {
    return reinterpret_cast<int32_t*>(memory_ + index(slot, seq) * stride_ + kHeadRoom);
  }
  /// The result packet: wire::kHeaderBytes directly in front of the words.
  uint8_t* frame(uint16_t slot, uint32_t seq) {
    return memory_ + index(slot, seq) * stride_ + kHeadRoom - wire::kHeaderBytes;
  }

 private:
  static constexpr size_t kHeadRoom = 64;  // the header, padded so that the words are aligned
  static_assert(kHeadRoom >= wire::kHeaderBytes);

  SlotStore(std::unique_ptr<SlotUse[]> uses, uint8_t* memory, size_t stride)
      : uses_(std::move(uses)), memory_(memory), stride_(stride) {}
  static size_t index(uint16_t slot, uint32_t seq) { return size_t{slot} * 2 + (seq & 1U); }

  std::unique_ptr<SlotUse[]> uses_;
  uint8_t* memory_;
  size_t stride_;
};

}  // namespace switchml::softswitch
