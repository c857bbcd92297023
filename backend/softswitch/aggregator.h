// Exponent, Witness, Aggregator: what one contribution does to the use of a slot.
//
// Contributions to one use may differ in length [LEN-1], as on a switch whose packets all have the full size and end in
// zeros.
#pragma once

#include <cstdint>

#include "softswitch/slot_store.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// First contribution of a use: overwrites whatever the version held, so that nothing ever needs clearing.
void take_over(SlotUse* use, int32_t* words, const wire::DataPacket& packet);

/// A further contribution, by the packet's operation. [SLOT-6, PKT-12, PKT-13] Precondition: not complete.
void merge(SlotUse* use, int32_t* words, const wire::DataPacket& packet);

/// What the aggregate of a complete use becomes: a result for the members, or, at a leaf of a tree, the contribution of
/// worker `uplink` to the parent.
struct Outcome {
  wire::Kind kind = wire::Kind::kResult;
  uint8_t worker = kAllWorkers;
};

/// Turns the use into its outcome's packet in place: the words change to network byte order and the header goes
/// directly in front of them. `last` is the header of the last contribution. Returns the size of the packet.
size_t complete(SlotUse* use, int32_t* words, const wire::DataPacket& last, const Outcome& outcome);

/// Whether a leaf sends a complete use up again for this member's repeat. One loss makes all members repeat. So the
/// first of them asks for all, and so does the last: it is the likeliest to come after what the parent lacked. Who
/// repeats twice has waited in vain, and is a first one. [TREE-6]
bool asks_for_all(SlotUse* use, uint8_t worker, const WorkerSet& members);

/// Marks a packet, native or not, as sent before.
void mark_repeated(uint8_t* frame);

}  // namespace switchml::softswitch
