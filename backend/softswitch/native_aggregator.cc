#include "softswitch/native_aggregator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "quant/reduction.h"

namespace switchml::softswitch {

namespace {

/// What all contributions to a use must be alike in, beside the hash of the call.
uint16_t kind_of(const wire::NativeHeader& header) {
  return static_cast<uint16_t>(header.type << 12 | header.operation << 8 | header.divisor);
}

void set_kind(wire::NativeHeader* header, uint16_t kind) {
  header->type = static_cast<uint8_t>(kind >> 12);
  header->operation = static_cast<uint8_t>(kind >> 8 & 0xf);
  header->divisor = static_cast<uint8_t>(kind);
}

struct Inputs {
  std::array<const uint8_t*, kMaxWorkers> elements;
  int count = 0;
};

/// In the order of the workers, whichever came last.
Inputs inputs_of(const SlotUse& use, SlotStore* store, const wire::NativePacket& last) {
  Inputs inputs;
  for (int worker = 0; worker <= use.contributed.highest(); ++worker) {
    if (!use.with_elements.test(worker)) continue;  // [NATIVE-17]
    const auto number = static_cast<uint8_t>(worker);
    inputs.elements[static_cast<size_t>(inputs.count++)] =
        number == last.header.worker ? last.elements : store->kept(last.header.slot, number);
  }
  return inputs;
}

}  // namespace

void begin_native(SlotUse* use, const wire::NativePacket& packet) {
  use->contributed = use->with_elements = use->want_none = use->with_target = use->asked_again = WorkerSet{};
  use->complete = use->disagree = false;
  use->witness = packet.header.call;
  use->exponent = kind_of(packet.header);
  use->bytes = 0;
}

void join_native(SlotUse* use, const wire::NativePacket& packet) {
  use->contributed.insert(packet.header.worker);
  if ((packet.header.flags & wire::kFlagNoElements) != 0) use->want_none.insert(packet.header.worker);  // [NATIVE-18]
  use->disagree |= packet.header.call != use->witness || kind_of(packet.header) != use->exponent;       // [NATIVE-20]
  use->disagree |= (packet.header.flags & wire::kFlagDisagree) != 0;                                    // [NTREE-3]
  if (packet.bytes == 0) return;
  use->disagree |= use->bytes != 0 && packet.bytes != use->bytes;  // [NATIVE-20]
  use->bytes = std::max(use->bytes, static_cast<uint32_t>(packet.bytes));
  use->with_elements.insert(packet.header.worker);
}

void keep_target(const wire::NativePacket& packet, SlotUse* use, SlotStore* store) {
  if (!packet.target) return;
  store->target(packet.header.slot, packet.header.worker) = *packet.target;
  use->with_target.insert(packet.header.worker);
}

void keep_elements(const wire::NativePacket& packet, SlotStore* store) {
  if (packet.bytes == 0) return;
  std::memcpy(store->kept(packet.header.slot, packet.header.worker), packet.elements, packet.bytes);
}

void complete_native(SlotUse* use, SlotStore* store, const wire::NativePacket& last, wire::ChecksumRule rule,
                     const Uplink* uplink) {
  wire::NativeHeader header = last.header;
  header.kind = static_cast<uint8_t>(wire::Kind::kNativeResult);
  header.worker = kAllWorkers;
  header.flags = use->disagree ? wire::kFlagDisagree : uint8_t{0};
  header.call = use->witness;
  set_kind(&header, use->exponent);  // [NATIVE-19]
  if (uplink != nullptr) {           // [NTREE-2]
    header.kind = static_cast<uint8_t>(wire::Kind::kNativeContribution);
    header.worker = uplink->worker;
    if (use->want_none == use->contributed) header.flags |= wire::kFlagNoElements;
  }
  if (use->disagree) use->bytes = 0;
  uint8_t* payload = store->payload(header.slot, header.seq);
  if (use->bytes > 0) {
    const Inputs inputs = inputs_of(*use, store, last);
    const uint32_t divisor = uplink != nullptr ? 1 : header.divisor;  // the root divides
    const quant::Reduction reduction{last.operation, last.type, divisor};
    // [NATIVE-17]
    quant::reduce(reduction, inputs.elements.data(), inputs.count, use->bytes / element_bytes(last.type), payload);
  }
  wire::seal_native(header, rule, payload - wire::kNativeHeaderBytes, use->bytes);
  use->complete = true;
  if (uplink != nullptr) return;
  if (!(use->want_none == WorkerSet{})) wire::seal_native(header, rule, payload - SlotStore::kHeadRoom, 0);
  if (!(use->with_target == WorkerSet{})) {
    header.flags |= wire::kFlagTarget;
    wire::seal_native(header, rule, payload - SlotStore::kTargetHead, 0);
  }
}

NativeFrame whole_frame(const SlotUse& use, const uint8_t* payload) {
  return {payload - wire::kNativeHeaderBytes, wire::kNativeHeaderBytes + use.bytes};
}

NativeFrame bare_frame(const uint8_t* payload) { return {payload - SlotStore::kHeadRoom, wire::kNativeHeaderBytes}; }

const wire::Target* target_for(const SlotUse& use, SlotStore* store, uint16_t slot, uint8_t worker) {
  if (!use.with_target.test(worker) || use.want_none.test(worker)) return nullptr;
  const wire::Target& target = store->target(slot, worker);
  return use.bytes > 0 && target.bytes == use.bytes ? &target : nullptr;
}

NativeFrame head_for_targets(uint8_t* payload) { return {payload - SlotStore::kTargetHead, wire::kNativeHeaderBytes}; }

}  // namespace switchml::softswitch
