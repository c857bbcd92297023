#include "softswitch/switch.h"

#include <algorithm>

#include "softswitch/aggregator.h"
#include "softswitch/pipeline.h"
#include "wire/slot_partition.h"

namespace switchml::softswitch {

namespace {

SessionLimits session_limits(const SwitchOptions& options) {
  SessionLimits limits;
  limits.slot_memory_bytes = options.slot_memory_bytes;
  limits.max_payload_bytes = options.max_payload_bytes;
  limits.max_jobs = options.max_jobs;
  limits.client_jobs = options.client_jobs;
  limits.client_memory_bytes = options.client_memory_bytes;
  limits.whole_chunks = options.whole_chunks;
  limits.native = !options.whole_chunks && !options.integers;
  limits.suits_tcp = options.suits_tcp;
  limits.has_card = options.has_card;
  limits.receive_buffer_bytes = options.receive_buffer_bytes;
  limits.lease = options.lease;
  limits.silence = options.silence;
  limits.seed = options.seed;
  return limits;
}

SessionEntry* drop(Counter& counter) {
  counter.add(1);
  return nullptr;
}

}  // namespace

// ---- what leaves ----

void PacketContext::unicast(const uint8_t* frame, size_t size, const Endpoint& to, Ecn ecn) {
  counters.packets_sent.add(1);
  counters.bytes_sent.add(size);
  out.set_ecn(ecn);
  out.unicast(frame, size, to);
  out.set_ecn(Ecn::kNone);
}

void PacketContext::multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count, Ecn ecn) {
  counters.packets_sent.add(count);
  counters.bytes_sent.add(count * size);
  out.set_ecn(ecn);
  out.multicast(frame, size, to, count);
  out.set_ecn(Ecn::kNone);
}

void PacketContext::write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
                          const Endpoint& to) {
  counters.packets_sent.add(1);
  counters.bytes_sent.add(target.bytes + size);
  out.write(elements, target, frame, size, to);
}

void PacketContext::reclaim(const SlotUse& use) {
  if (use.borrowed_in != part.burst) return;
  out.reclaim();
  ++part.burst;
}

void PacketContext::drop(wire::ParseError error) {
  switch (error) {
    case wire::ParseError::kNone: break;
    case wire::ParseError::kShort: return counters.dropped_short.add(1);           // [DROP-1]
    case wire::ParseError::kOtherVersion: return counters.dropped_version.add(1);  // [DROP-2]
    case wire::ParseError::kKind: return counters.dropped_kind.add(1);             // [DROP-3]
    case wire::ParseError::kLength: return counters.dropped_length.add(1);         // [DROP-4]
    case wire::ParseError::kOperation: return counters.dropped_operation.add(1);   // [DROP-5]
    case wire::ParseError::kSeq: return counters.dropped_seq.add(1);               // [DROP-6]
    case wire::ParseError::kChecksum: return counters.dropped_checksum.add(1);
  }
}

SoftSwitch::SoftSwitch(const SwitchOptions& options) : impl_(std::make_unique<Impl>(options)) {}
SoftSwitch::~SoftSwitch() = default;
size_t SoftSwitch::slot_memory_in_use() const { return impl_->table.slot_memory_in_use(); }
int SoftSwitch::sessions() const { return impl_->table.sessions(); }

SwitchCounters SoftSwitch::counters() const {
  SwitchCounters sum;
  for (const Partition& part : impl_->partitions) sum.add(part.counters);
  return sum;
}

int SoftSwitch::partition_of(const uint8_t* frame, size_t size) const {
  if (size > 0 && wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kRequest)) return kWholeSwitch;
  if (impl_->partitions.size() == 1 || size < wire::kHeaderBytes) return 0;
  const wire::Header header = wire::read_header(frame);
  return wire::slot_partition(header.job, header.slot, static_cast<int>(impl_->partitions.size()));
}

void SoftSwitch::begin_burst(int partition) { ++impl_->partitions[static_cast<size_t>(partition)].burst; }

bool SoftSwitch::process_in(int partition, const RxFrame& frame, Time now, PacketSink& out) {
  Partition& part = impl_->partitions[static_cast<size_t>(partition)];
  PacketContext context{part, part.counters, out};
  return impl_->data(frame, now, impl_->partitions.size() == 1, context);
}

void SoftSwitch::process(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out, Ecn ecn) {
  const int partition = partition_of(frame, size);
  if (partition == kWholeSwitch) {
    impl_->counters.packets_received.add(1);
    impl_->counters.bytes_received.add(size);
    return impl_->request(frame, size, from, now, out);
  }
  begin_burst(partition);
  Partition& part = impl_->partitions[static_cast<size_t>(partition)];
  PacketContext context{part, part.counters, out};
  impl_->data({frame, static_cast<uint32_t>(size), from, ecn}, now, true, context);
}

void SoftSwitch::invite(uint64_t client_key) {
  impl_->invited[impl_->invitations++ % impl_->invited.size()] = client_key;
}

void SoftSwitch::sweep(Time now) {
  impl_->gather_signs_of_life();
  impl_->expire(impl_->table.expired(now));
}

void SoftSwitch::hand_requests_to(ControlTap* tap) { impl_->tap = tap; }
void SoftSwitch::answer_meets_by(MeetTap* tap) { impl_->meet_tap = tap; }
SoftSwitch::Joined SoftSwitch::join(const wire::Join& asked, const Endpoint& from, Time now) {
  const SessionTable::Joined joined = impl_->table.join(asked, from, now);
  return {joined.status, joined.reply};
}
bool SoftSwitch::serves(uint8_t job, uint32_t epoch) const { return impl_->table.find(job, epoch) != nullptr; }

SoftSwitch::Impl::Impl(const SwitchOptions& options)
    : slot_memory_bytes(options.slot_memory_bytes),
      max_payload_bytes(options.max_payload_bytes),
      client_of(options.client_of),
      by_invitation(options.by_invitation),
      table(session_limits(options)),
      partitions(static_cast<size_t>(std::clamp(options.partitions, 1, kMaxSwitchThreads))),
      counters(partitions.front().counters) {}

bool SoftSwitch::Impl::data(const RxFrame& frame, Time now, bool alone, PacketContext& context) {
  if (!contribution(frame, now, alone, context)) return false;
  context.counters.packets_received.add(1);
  context.counters.bytes_received.add(frame.size);
  return true;
}

bool SoftSwitch::Impl::contribution(const RxFrame& frame, Time now, bool alone, PacketContext& context) {
  wire::DataPacket packet;
  const wire::ParseError error = wire::parse_data(frame.data, frame.size, wire::Kind::kContribution, &packet);
  if (error == wire::ParseError::kKind) return other_than_integers(frame, now, alone, context);
  if (error != wire::ParseError::kNone) {
    context.drop(error);
    return true;
  }
  const wire::Header& header = packet.header;
  const Sender sender{header.job, header.worker, header.epoch, header.slot, false, packet.words * kWordBytes};
  SessionEntry* session = admit(sender, frame.from, context.counters);
  if (session == nullptr) return true;  // [DROP-11]
  if (!note_member(session, sender, frame, now, alone, context)) return false;
  aggregate(*session, packet, frame, context);
  return true;
}

bool SoftSwitch::Impl::other_than_integers(const RxFrame& frame, Time now, bool alone, PacketContext& context) {
  const auto kind = static_cast<wire::Kind>(wire::kind_of(frame.data));
  if (kind == wire::Kind::kNativeContribution) return native_contribution(frame, now, alone, context);
  if (kind == wire::Kind::kResult) {
    pass_down(frame, context);
  } else if (kind == wire::Kind::kNativeResult) {
    pass_down_native(frame, context);
  } else {
    context.drop(wire::ParseError::kKind);  // whatever its length: it has no header that is known
  }
  return true;
}

bool SoftSwitch::Impl::note_member(SessionEntry* session, const Sender& sender, const RxFrame& frame, Time now,
                                   bool alone, PacketContext& context) {
  const int shard = session->shard_of(sender.slot);
  if (session->member(sender.worker, shard).via != frame.from.via) {
    if (!alone) return false;
    session->note_via(sender.worker, shard, frame.from.via);
  }
  context.part.heard[sender.job] = now;
  return true;
}

SessionEntry* SoftSwitch::Impl::admit(const Sender& sender, const Endpoint& from, SwitchCounters& counts) {
  SessionEntry* session = table.find(sender.job, sender.epoch);
  if (session == nullptr) return drop(counts.dropped_session);                  // [DROP-7]
  if (session->native() != sender.native) return drop(counts.dropped_kind);     // [NATIVE-3]
  if (sender.worker >= session->workers()) return drop(counts.dropped_worker);  // [DROP-9]
  if (sender.slot >= session->slots()) return drop(counts.dropped_slot);        // [BASE-4, PKT-9, DROP-8]
  const Endpoint& member = session->member(sender.worker, session->shard_of(sender.slot));
  if (member.size == 0) return drop(counts.dropped_worker);  // [DROP-10]
  if (member != from) {
    // The right worker through the wrong one of its sockets is a slot of another shard; anybody else is a stranger.
    // [DROP-10]
    return drop(session->speaks_for(sender.worker, from) ? counts.dropped_slot : counts.dropped_source);
  }
  return session->takes(sender.bytes) ? session : drop(counts.dropped_length);  // [DROP-4]
}

SessionEntry* SoftSwitch::Impl::admit_result(const Sender& sender, const Endpoint& from, SwitchCounters& counts) {
  SessionEntry* leaf = table.find(sender.job, sender.epoch);
  if (leaf == nullptr) return drop(counts.dropped_session);
  if (leaf->uplink() == nullptr || leaf->native() != sender.native)
    return drop(counts.dropped_kind);                                      // [TREE-8, NATIVE-3]
  if (leaf->uplink()->parent != from) return drop(counts.dropped_source);  // [TREE-8]
  if (sender.slot >= leaf->slots()) return drop(counts.dropped_slot);
  return leaf->takes(sender.bytes) ? leaf : drop(counts.dropped_length);
}

void SoftSwitch::Impl::aggregate(const SessionEntry& session, const wire::DataPacket& packet, const RxFrame& asking,
                                 PacketContext& context) {
  const wire::Header& header = packet.header;
  SlotStore& store = *stores[header.job];
  SlotUse& use = store.use(header.slot, header.seq);
  int32_t* words = store.words(header.slot, header.seq);
  uint8_t* frame = store.payload(header.slot, header.seq) - wire::kHeaderBytes;

  switch (check_sequence(&use.pair, header.epoch, header.seq)) {
    case Sequence::kStale: return context.counters.dropped_stale.add(1);  // [SLOT-9]
    case Sequence::kNew:                                                  // [SLOT-5]
      context.reclaim(use);
      take_over(&use, words, packet);
      use.ecn = asking.ecn;
      context.counters.uses_started.add(1);
      break;
    case Sequence::kSame:
      if (use.complete || !use.contributed.insert(header.worker))
        return duplicate(session, &use, header.worker, frame, asking, context);  // [SLOT-7, SLOT-8]
      merge(&use, words, packet);                                                // [SLOT-6]
      use.ecn = together(use.ecn, asking.ecn);                                   // [ECN-1]
      break;
  }
  context.counters.contributions_added.add(1);
  context.counters.elements_added.add(packet.words);

  if (!(use.contributed == session.expected())) return;  // [SLOT-12]
  Outcome outcome;
  if (session.uplink() != nullptr) outcome = {wire::Kind::kContribution, session.uplink()->worker};
  const size_t size = complete(&use, words, packet, outcome);
  context.counters.uses_completed.add(1);
  use.borrowed_in = context.part.burst;
  forward(session, header.slot, frame, size, use.ecn, context);
}

void SoftSwitch::Impl::forward(const SessionEntry& session, uint16_t slot, const uint8_t* frame, size_t size, Ecn ecn,
                               PacketContext& context) {
  if (session.uplink() != nullptr) return context.unicast(frame, size, session.uplink()->parent, ecn);  // [TREE-4]
  const std::vector<const Endpoint*>& all = session.audience(session.shard_of(slot));
  context.multicast(frame, size, all.data(), all.size(), ecn);  // [SLOT-12, TREE-3]
}

// [LOSS-2, LOSS-3]
void SoftSwitch::Impl::duplicate(const SessionEntry& session, SlotUse* use, uint8_t worker, uint8_t* frame,
                                 const RxFrame& asking, PacketContext& context) {
  const bool leaf = session.uplink() != nullptr;
  if (!use->complete || (leaf && !asks_for_all(use, worker, session.expected())))
    return context.counters.duplicates_dropped.add(1);  // [SLOT-7, TREE-6]
  context.counters.duplicates_answered.add(1);
  if (leaf) {  // [TREE-6]
    context.reclaim(*use);
    mark_repeated(frame);
  }
  use->borrowed_in = context.part.burst;
  const size_t size = std::min<size_t>(wire::kHeaderBytes + use->bytes, asking.size);
  context.unicast(frame, size, leaf ? session.uplink()->parent : asking.from, asking.ecn);
}

void SoftSwitch::Impl::pass_down(const RxFrame& frame, PacketContext& context) {
  SwitchCounters& counts = context.counters;
  wire::DataPacket packet;
  const wire::ParseError error = wire::parse_data(frame.data, frame.size, wire::Kind::kResult, &packet);
  if (error != wire::ParseError::kNone) return context.drop(error);
  const wire::Header& header = packet.header;
  const Sender sender{header.job, header.worker, header.epoch, header.slot, false, packet.words * kWordBytes};
  const SessionEntry* session = admit_result(sender, frame.from, counts);
  if (session == nullptr) return;
  counts.results_passed_down.add(1);
  SlotUse& use = stores[header.job]->use(header.slot, header.seq);
  if (use.holds(header.epoch, header.seq)) use.asked_again = WorkerSet{};  // [TREE-6]
  const std::vector<const Endpoint*>& all = session->audience(session->shard_of(header.slot));
  context.multicast(frame.data, frame.size, all.data(), all.size(), frame.ecn);  // [TREE-7, ECN-2]
}

void SoftSwitch::Impl::gather_signs_of_life() {
  for (const Partition& part : partitions) {
    for (size_t job = 1; job < part.heard.size(); ++job) table.heard(static_cast<uint8_t>(job), part.heard[job]);
  }
}

void SoftSwitch::Impl::end(uint8_t job) {
  stores[job].reset();
  table.end(job);
}

}  // namespace switchml::softswitch
