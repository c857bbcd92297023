// Contributions of native sessions. Sessions, sequence numbers and duplicates are what they are for integers.
#include "softswitch/native_aggregator.h"
#include "softswitch/pipeline.h"
#include "wire/checksum.h"

namespace switchml::softswitch {

namespace {

/// Both versions of a slot share the room where contributions are kept: what is added to the older use, which nobody
/// waits for any more, would lie in the newer one's place.
bool overtaken(const SlotUse& other, const wire::NativeHeader& header) {
  return other.pair.epoch == header.epoch && wire::newer_seq(other.pair.seq, header.seq);
}

bool holds(const SlotUse& use, const wire::NativeHeader& header) {
  return use.pair.epoch == header.epoch && use.pair.seq == header.seq;
}

}  // namespace

bool SoftSwitch::Impl::native_contribution(const RxFrame& frame, Time now, bool alone, Exit& exit) {
  wire::NativePacket packet;
  const wire::ParseError error = wire::parse_native(frame.data, frame.size, wire::Kind::kNativeContribution, &packet);
  if (error != wire::ParseError::kNone) {
    exit.drop(error);
    return true;
  }
  const wire::NativeHeader& header = packet.header;
  const Sender sender{header.job, header.worker, header.epoch, header.slot, true, packet.bytes};
  SessionEntry* session = admit(sender, frame.from, exit.counters);
  if (session == nullptr) return true;
  if (!wire::native_intact(frame.data, frame.size, session->granted().session_key)) {
    exit.counters.dropped_checksum.add(1);
    return true;
  }
  if (!note_member(session, sender, frame, now, alone, exit)) return false;
  aggregate_native(*session, packet, frame, exit);
  return true;
}

void SoftSwitch::Impl::aggregate_native(const SessionEntry& session, const wire::NativePacket& packet,
                                        const RxFrame& asking, Exit& exit) {
  const wire::NativeHeader& header = packet.header;
  SlotStore& store = *stores[header.job];
  SlotUse& use = store.use(header.slot, header.seq);
  uint8_t* frame = store.payload(header.slot, header.seq) - wire::kNativeHeaderBytes;
  const bool late = overtaken(store.use(header.slot, header.seq + 1), header);
  if (late && !holds(use, header)) return exit.counters.dropped_stale.add(1);

  switch (check_sequence(&use.pair, header.epoch, header.seq)) {
    case Sequence::kStale: return exit.counters.dropped_stale.add(1);
    case Sequence::kNew:
      exit.reclaim(use);
      begin_native(&use, packet);
      exit.counters.uses_started.add(1);
      break;
    case Sequence::kSame:
      if (use.complete || use.contributed.test(header.worker)) return duplicate(session, &use, frame, asking, exit);
      if (late) return exit.counters.dropped_stale.add(1);
      break;
  }
  join_native(&use, packet);
  exit.counters.contributions_added.add(1);
  exit.counters.elements_added.add(packet.bytes / element_bytes(packet.type));

  if (!(use.contributed == session.expected())) return keep(packet, store.kept(header.slot, header.worker));
  const size_t size = complete_native(&use, &store, packet, session.granted().session_key);
  exit.counters.uses_completed.add(1);
  use.lent = exit.part.burst;
  forward(session, header.slot, frame, size, exit);
}

}  // namespace switchml::softswitch
