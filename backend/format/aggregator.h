// What a switch does with the packets of one format: how they are checked, and what a contribution does to the use of a
// slot. A switch (softswitch/switch.h) knows no more of a format than this. exact/ and integer/ have an aggregator
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/limits.h"
#include "slots/slot_store.h"
#include "wire/checksum.h"
#include "wire/packet.h"

namespace switchml {

/// A data packet at a switch, viewed in place: a contribution, or at a leaf of a tree a result.
struct Arrival {
  uint8_t job = 0;
  uint8_t worker = 0;
  uint8_t flags = 0;
  uint32_t epoch = 0;
  uint16_t slot = 0;
  uint32_t seq = 0;
  uint16_t kind = 0;   // Contributions to a use must have one kind, beside one call; for integers it is the exponent.
  uint32_t check = 0;  // the witness, or the call
  const uint8_t* payload = nullptr;
  size_t bytes = 0;
  size_t room = 0;                     // Bytes of payload that all contributions and the result need.
  size_t first_block = 0;              // Packed: elements of the first block, as wire::Blocks has it.
  size_t elements = 0;                 // words, of integers
  std::optional<wire::Target> target;  // The worker wants the result written there.
};

/// An arrival with what the headers of all formats have.
template <typename Header>
Arrival arrival_of(const Header& header) {
  Arrival arrival;
  arrival.job = header.job;
  arrival.worker = header.worker;
  arrival.flags = header.flags;
  arrival.epoch = header.epoch;
  arrival.slot = header.slot;
  arrival.seq = header.seq;
  return arrival;
}

/// What the headers of all formats have, of the outcome of a use that `last` completes: from all workers, or from
/// `uplink`, a leaf's number at its parent [TREE-5].
template <typename Header>
Header outcome_of(const Arrival& last, wire::Kind kind, std::optional<uint8_t> uplink) {
  Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(kind);
  header.job = last.job;
  header.worker = uplink.value_or(kAllWorkers);
  header.epoch = last.epoch;
  header.slot = last.slot;
  header.seq = last.seq;
  return header;
}

/// A frame that a switch sends, in the slot store or where it arrived.
struct SwitchFrame {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

/// Free of state, so thread-safe.
class Aggregator {
 public:
  virtual ~Aggregator() = default;

  virtual size_t header_bytes() const = 0;
  /// Checks all that the bytes themselves tell, but for a checksum. `out` is set on kNone only.
  virtual wire::ParseError parse(const uint8_t* frame, size_t size, bool is_result, Arrival* out) const = 0;
  /// Whether the checksum of a frame holds that parse() takes. True where the format has none.
  virtual bool is_intact(const uint8_t* /*frame*/, size_t /*size*/, wire::ChecksumRule /*rule*/) const { return true; }
  /// Whether a contribution can be taken no more because the slot's other version holds a newer use.
  virtual bool is_overtaken(const SlotUse& /*other*/, const Arrival& /*arrival*/) const { return false; }

  /// Adds a contribution to a use. The first one finds the use as SlotUse::restart() leaves it.
  virtual void add(const Arrival& arrival, bool is_first, SlotUse* use, SlotStore* store) const = 0;
  /// Keeps what completing the use needs. Not called for the last contribution.
  virtual void keep(const Arrival& /*arrival*/, SlotStore* /*store*/) const {}
  /// Makes a use that has all contributions into a result, its header in front, in its place in the store. With
  /// `uplink`, a leaf's number at its parent, into a contribution to that [TREE-5]. `last`: the last contribution.
  virtual void complete(const Arrival& last, SlotUse* use, SlotStore* store, wire::ChecksumRule rule,
                        std::optional<uint8_t> uplink) const = 0;

  /// The frame of a complete use; its `payload` lies in the store.
  SwitchFrame whole_frame(const SlotUse& use, const uint8_t* payload) const {
    return {payload - header_bytes(), header_bytes() + use.bytes};
  }
  /// The same without elements, for members that want none; complete() has made it, or make_bare_frame().
  SwitchFrame bare_frame(const uint8_t* payload) const { return {payload - SlotStore::kHeadRoom, header_bytes()}; }
  /// What follows the elements of members that have named a target.
  SwitchFrame placed_frame(const uint8_t* payload) const { return {payload - SlotStore::kTargetHead, header_bytes()}; }
  /// The answer to a member that contributes `asked` bytes, header included, to a complete use once more; or what a
  /// leaf sends to its parent once more for it.
  virtual SwitchFrame repeated_frame(const SlotUse& use, const uint8_t* payload, uint8_t worker, size_t asked,
                                     bool is_leaf) const = 0;
  /// Whether a leaf hands a result from its parent on to its members.
  virtual bool hands_on(const SlotUse& /*use*/, const Arrival& /*result*/) const { return true; }
  /// The bare frame of such a result, in front of the `payload` of its use.
  virtual void make_bare_frame(const uint8_t* /*result*/, wire::ChecksumRule /*rule*/, uint8_t* /*payload*/) const {}
};

}  // namespace switchml
