// Exponent, Witness, Aggregator: what one contribution does to the use of a slot.
//
// Contributions to one use may differ in length: words that a packet does not have count as 0, as on a switch whose
// packets all have the full size and end in zeros.
#pragma once

#include <cstdint>

#include "softswitch/slot_store.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// First contribution of a use: overwrites whatever the version held, so that nothing ever needs clearing.
void take_over(SlotUse* use, int32_t* words, const wire::DataPacket& packet);

/// A further contribution. The operation is the packet's; sums wrap modulo 2^32; the witness is summed whatever the
/// operation. Precondition: not complete.
void merge(SlotUse* use, int32_t* words, const wire::DataPacket& packet);

/// Turns the use into its result packet in place: the words change to network byte order and `frame`, directly in front
/// of them, gets the header. `last` is the header of the last contribution. Returns the size of the packet.
size_t complete(SlotUse* use, int32_t* words, uint8_t* frame, const wire::DataPacket& last);

/// Size of the result packet of a complete use.
inline size_t result_bytes(const SlotUse& use) { return wire::kHeaderBytes + use.words * kWordBytes; }

}  // namespace switchml::softswitch
