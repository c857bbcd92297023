// SlotStore: the slots of one job. Allocated when the session opens, freed when it ends; no packet ever allocates.
//
// Of an exact session it keeps each worker's contribution until the last one has come. Both versions of a slot share
// that room: no worker contributes to a use before the one before it was complete, and its result computed. A use that
// was given up before that gets no more contributions once a newer one has some (exact/exact_aggregator.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "slots/sequence_check.h"
#include "slots/worker_set.h"
#include "socket/endpoint.h"
#include "wire/packet.h"

namespace switchml {

/// One version of a slot: the state of the use that it holds. Its words or elements lie in the store.
struct SlotUse {
  bool holds(uint32_t epoch, uint32_t seq) const { return pair.epoch == epoch && pair.seq == seq; }
  /// Forgets the contributions of the use before.
  void restart() {
    contributed = asked_again = with_elements = want_none = with_target = packed = WorkerSet{};
    bytes = elements = first_block = 0;
    complete = disagree = false;
  }

  SequencePair pair;
  WorkerSet contributed;
  WorkerSet asked_again;     // a leaf's members that have repeated since the parent was asked for all, or answered
  WorkerSet with_elements;   // exact: those of `contributed` that sent any
  WorkerSet want_none;       // exact: those that take the result without elements
  WorkerSet with_target;     // exact: those that have a target in the store
  WorkerSet packed;          // exact: those of `with_elements` that left blocks of zeros out
  uint32_t check = 0;        // sum of the witnesses; exact: the call
  uint32_t bytes = 0;        // the longest contribution so far; once complete, the result's; exact: only then
  uint32_t elements = 0;     // exact: of each contribution that has any, with those that are left out
  uint32_t first_block = 0;  // exact: elements of the first block of packed contributions; 0: there are none
  uint16_t kind = 0;         // the largest exponent; exact: type, operation and divisor
  uint32_t borrowed_in = 0;  // the burst in which a sink was last given the frame; 0: never
  Ecn ecn = Ecn::kNone;      // all contributions together [ECN-1]
  bool complete = false;     // the bytes behind the header are a result's, and the header is in front
  bool disagree = false;     // exact: contributions to several calls
};

class SlotStore {
 public:
  /// Null where the memory cannot be had. `kept`: contributions of each slot; 0: they are added as they come.
  /// Preconditions: slots > 0, payload a multiple of 64.
  static std::unique_ptr<SlotStore> create(int slots, size_t payload_bytes, size_t kept = 0);
  /// Bytes that one slot takes, both versions and what is kept.
  static size_t slot_bytes(size_t payload_bytes, size_t kept = 0);
  ~SlotStore();
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;

  /// Precondition: slot < slots. The version is the parity of `seq`.
  SlotUse& use(uint16_t slot, uint32_t seq) { return uses_[index(slot, seq)]; }
  /// 64-byte aligned; `payload_bytes` of room, and kHeadRoom in front. If contributions are kept, there is room for
  /// any result of theirs.
  uint8_t* payload(uint16_t slot, uint32_t seq) {
    return memory_ + size_t{slot} * slot_stride_ + (seq & 1U) * stride_ + kHeadRoom;
  }
  int32_t* words(uint16_t slot, uint32_t seq) { return reinterpret_cast<int32_t*>(payload(slot, seq)); }
  /// A worker's contribution to a use of an exact session: 64-byte aligned, payload_bytes() of room. Precondition:
  /// worker < kept.
  uint8_t* kept(uint16_t slot, uint8_t worker) {
    return memory_ + size_t{slot} * slot_stride_ + 2 * stride_ + size_t{worker} * payload_bytes_;
  }

  size_t payload_bytes() const { return payload_bytes_; }

  /// Where a worker wants an exact result to be written, kept as its contribution is.
  wire::Target& target(uint16_t slot, uint8_t worker) { return targets_[size_t{slot} * kept_ + worker]; }

  /// Room in front of a payload for the headers of an exact result without elements, and of one with its elements in
  /// targets; right before the payload is the whole one's.
  static constexpr size_t kHeadRoom = 128;
  static constexpr size_t kTargetHead = 64;
  static_assert(kHeadRoom - kTargetHead >= wire::kExactHeaderBytes);
  static_assert(kTargetHead >= wire::kHeaderBytes && kTargetHead >= 2 * wire::kExactHeaderBytes);

 private:
  SlotStore(std::unique_ptr<SlotUse[]> uses, std::unique_ptr<wire::Target[]> targets, uint8_t* memory,
            size_t payload_bytes, size_t kept);
  /// Both versions, and what is kept.
  static size_t slot_stride(size_t payload_bytes, size_t kept) {
    return 2 * version_stride(payload_bytes, kept) + kept * payload_bytes;
  }
  static size_t version_stride(size_t payload_bytes, size_t kept) {
    return kHeadRoom + (kept == 0 ? payload_bytes : std::max(payload_bytes, most_of_results(payload_bytes)));
  }
  /// Narrow terms have results of up to four times their bytes. [NSUM-4]
  static size_t most_of_results(size_t payload_bytes) {
    return std::min(4 * payload_bytes, wire::kMostOfShortPayloads);
  }
  static size_t index(uint16_t slot, uint32_t seq) { return size_t{slot} * 2 + (seq & 1U); }  // [SLOT-3]

  std::unique_ptr<SlotUse[]> uses_;
  std::unique_ptr<wire::Target[]> targets_;
  uint8_t* memory_;
  size_t payload_bytes_;
  size_t kept_;
  size_t stride_;  // bytes per version
  size_t slot_stride_;
};

}  // namespace switchml
