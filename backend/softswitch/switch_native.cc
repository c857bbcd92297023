// Packets of native sessions. [NATIVE-12]
#include <array>

#include "softswitch/aggregator.h"
#include "softswitch/native_aggregator.h"
#include "softswitch/pipeline.h"
#include "wire/checksum.h"

namespace switchml::softswitch {

namespace {

/// Both versions of a slot share the room where contributions are kept: what is added to the older use, which nobody
/// waits for any more, would lie in the newer one's place.
bool overtaken(const SlotUse& other, const wire::NativeHeader& header) {
  return other.pair.epoch == header.epoch && wire::newer_seq(other.pair.seq, header.seq);  // [NATIVE-16]
}

}  // namespace

bool SoftSwitch::Impl::native_contribution(const RxFrame& frame, Time now, bool alone, PacketContext& context) {
  wire::NativePacket packet;
  const wire::ParseError error = wire::parse_native(frame.data, frame.size, wire::Kind::kNativeContribution, &packet);
  if (error != wire::ParseError::kNone) {
    context.drop(error);
    return true;
  }
  if (packet.target && frame.from.carrier != Carrier::kRdma) {  // [RDMA-6]
    context.drop(wire::ParseError::kLength);
    return true;
  }
  const wire::NativeHeader& header = packet.header;
  const Sender sender{header.job, header.worker, header.epoch, header.slot, true, packet.bytes};
  SessionEntry* session = admit(sender, frame.from, context.counters);
  if (session == nullptr) return true;
  if (!wire::native_intact(frame.data, frame.size, session->checksum_rule())) {  // [NATIVE-15]
    context.counters.dropped_checksum.add(1);
    return true;
  }
  if (!note_member(session, sender, frame, now, alone, context)) return false;
  aggregate_native(*session, packet, frame, context);
  return true;
}

void SoftSwitch::Impl::aggregate_native(const SessionEntry& session, const wire::NativePacket& packet,
                                        const RxFrame& asking, PacketContext& context) {
  const wire::NativeHeader& header = packet.header;
  SlotStore& store = *stores[header.job];
  SlotUse& use = store.use(header.slot, header.seq);
  const bool late = overtaken(store.use(header.slot, header.seq + 1), header);
  if (late && !use.holds(header.epoch, header.seq)) return context.counters.dropped_stale.add(1);  // [NATIVE-16]

  switch (check_sequence(&use.pair, header.epoch, header.seq)) {
    case Sequence::kStale: return context.counters.dropped_stale.add(1);
    case Sequence::kNew:
      context.reclaim(use);
      begin_native(&use, packet);
      use.ecn = asking.ecn;
      context.counters.uses_started.add(1);
      break;
    case Sequence::kSame:
      if (use.complete || use.contributed.test(header.worker))
        return duplicate_native(session, &use, header, asking, context);
      if (late) return context.counters.dropped_stale.add(1);  // [NATIVE-16]
      break;
  }
  join_native(&use, packet);
  use.ecn = together(use.ecn, asking.ecn);  // [ECN-1]
  context.counters.contributions_added.add(1);
  context.counters.elements_added.add(packet.bytes / element_bytes(packet.type));

  keep_target(packet, &use, &store);
  if (!(use.contributed == session.expected())) return keep_elements(packet, &store);
  complete_native(&use, &store, packet, session.checksum_rule(), session.uplink());
  context.counters.uses_completed.add(1);
  use.borrowed_in = context.part.burst;
  forward_native(session, use, header, context);
}

void SoftSwitch::Impl::forward_native(const SessionEntry& session, const SlotUse& use, const wire::NativeHeader& header,
                                      PacketContext& context) {
  uint8_t* payload = stores[header.job]->payload(header.slot, header.seq);
  const NativeFrame whole = whole_frame(use, payload);
  if (session.uplink() != nullptr)
    return context.unicast(whole.data, whole.size, session.uplink()->parent, use.ecn);  // [NTREE-2]
  to_members(session, use, header, whole, bare_frame(payload), use.ecn, context);
}

// [NATIVE-18]
void SoftSwitch::Impl::to_members(const SessionEntry& session, const SlotUse& use, const wire::NativeHeader& header,
                                  const NativeFrame& whole, const NativeFrame& bare, Ecn ecn, PacketContext& context) {
  SlotStore& store = *stores[header.job];
  uint8_t* payload = store.payload(header.slot, header.seq);
  std::array<const Endpoint*, kMaxWorkers> to;
  for (const bool wants_none : {false, true}) {
    size_t count = 0;
    for (int worker = 0; worker < session.workers(); ++worker) {
      const Endpoint& member = session.member(worker, session.shard_of(header.slot));
      if (use.want_none.test(worker) != wants_none || member.size == 0) continue;
      if (const wire::Target* target =
              target_for(use, &store, header.slot, static_cast<uint8_t>(worker))) {  // [RDMA-7]
        const NativeFrame head = head_for_targets(payload);
        context.write(payload, *target, head.data, head.size, member);
        continue;
      }
      to[count++] = &member;
    }
    const NativeFrame& frame = wants_none ? bare : whole;
    if (count > 0) context.multicast(frame.data, frame.size, to.data(), count, ecn);
  }
}

// [NATIVE-13]
void SoftSwitch::Impl::duplicate_native(const SessionEntry& session, SlotUse* use, const wire::NativeHeader& header,
                                        const RxFrame& asking, PacketContext& context) {
  const bool leaf = session.uplink() != nullptr;
  if (!use->complete || (leaf && !asks_for_all(use, header.worker, session.expected())))
    return context.counters.duplicates_dropped.add(1);  // [NTREE-4]
  context.counters.duplicates_answered.add(1);
  uint8_t* payload = stores[header.job]->payload(header.slot, header.seq);
  NativeFrame frame = use->want_none.test(header.worker) ? bare_frame(payload) : whole_frame(*use, payload);
  if (leaf) {  // [NTREE-4]
    context.reclaim(*use);
    mark_repeated(payload - wire::kNativeHeaderBytes);
    frame = whole_frame(*use, payload);
  }
  use->borrowed_in = context.part.burst;
  context.unicast(frame.data, frame.size, leaf ? session.uplink()->parent : asking.from, asking.ecn);
}

// [NTREE-5]
void SoftSwitch::Impl::pass_down_native(const RxFrame& frame, PacketContext& context) {
  SwitchCounters& counts = context.counters;
  wire::NativePacket packet;
  const wire::ParseError error = wire::parse_native(frame.data, frame.size, wire::Kind::kNativeResult, &packet);
  if (error != wire::ParseError::kNone) return context.drop(error);
  const wire::NativeHeader& header = packet.header;
  const Sender sender{header.job, header.worker, header.epoch, header.slot, true, packet.bytes};
  const SessionEntry* session = admit_result(sender, frame.from, counts);
  if (session == nullptr) return;
  if (packet.target) return counts.dropped_length.add(1);  // [RDMA-6]
  if (!wire::native_intact(frame.data, frame.size, session->checksum_rule())) return counts.dropped_checksum.add(1);
  SlotUse& use = stores[header.job]->use(header.slot, header.seq);
  if (!use.holds(header.epoch, header.seq) || !use.complete) return counts.dropped_stale.add(1);
  counts.results_passed_down.add(1);
  use.asked_again = WorkerSet{};  // [NTREE-4]
  const NativeFrame whole{frame.data, frame.size};
  NativeFrame bare = whole;
  if (packet.bytes > 0 && !(use.want_none == WorkerSet{})) {  // with a checksum of its own
    uint8_t* payload = stores[header.job]->payload(header.slot, header.seq);
    context.reclaim(use);
    wire::seal_native(header, session->checksum_rule(), payload - SlotStore::kHeadRoom, 0);
    use.borrowed_in = context.part.burst;
    bare = bare_frame(payload);
  }
  to_members(*session, use, header, whole, bare, frame.ecn, context);  // [ECN-2]
}

}  // namespace switchml::softswitch
