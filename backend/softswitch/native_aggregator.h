// What one contribution does to the use of a slot of a native session: it is kept until the last one has come, then all
// are reduced at once (quant/reduction.h) [NATIVE-17, NATIVE-20]. So sums of floats are exact, and rounded once at each
// switch of a tree.
#pragma once

#include <cstdint>

#include "softswitch/installed.h"
#include "softswitch/slot_store.h"
#include "wire/checksum.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// First contribution of a use: forgets the use before.
void begin_native(SlotUse* use, const wire::NativePacket& packet);
/// Any contribution, the first one too: counts it, and compares its call with the first one's. Precondition: the worker
/// has not contributed to this use.
void join_native(SlotUse* use, const wire::NativePacket& packet);
/// Keeps its target and its elements. Of the last one the target is enough.
void keep_target(const wire::NativePacket& packet, SlotUse* use, SlotStore* store);
void keep_elements(const wire::NativePacket& packet, SlotStore* store);
/// The result, its headers in front, in the use's place in the store; with an uplink the contribution to the parent
/// [NTREE-2]. `last`: the last contribution, which need not be kept.
void complete_native(SlotUse* use, SlotStore* store, const wire::NativePacket& last, wire::ChecksumRule rule,
                     const Uplink* uplink);

struct NativeFrame {
  const uint8_t* data;
  size_t size;
};
/// The result or a leaf's contribution of a complete use, whose `payload` lies in the store.
NativeFrame whole_frame(const SlotUse& use, const uint8_t* payload);
/// The result for whoever wants no elements. [NATIVE-18]
NativeFrame bare_frame(const uint8_t* payload);
/// Where a worker gets the elements; null: in its frame. [RDMA-7]
const wire::Target* target_for(const SlotUse& use, SlotStore* store, uint16_t slot, uint8_t worker);
/// What follows them then.
NativeFrame head_for_targets(uint8_t* payload);

}  // namespace switchml::softswitch
