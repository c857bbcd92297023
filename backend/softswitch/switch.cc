#include "softswitch/switch.h"

#include <algorithm>
#include <array>

#include "exact/exact_aggregator.h"
#include "integer/integer_aggregator.h"
#include "softswitch/pipeline.h"

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
  limits.exact = !options.whole_chunks && !options.integers;
  limits.suits_tcp = options.suits_tcp;
  limits.has_card = options.has_card;
  limits.sealed = options.sealed;
  limits.receive_buffer_bytes = options.receive_buffer_bytes;
  limits.lease = options.lease;
  limits.silence = options.silence;
  limits.seed = options.seed;
  return limits;
}

const ExactAggregator kExact;
const IntegerAggregator kInteger;

// Whether a leaf sends a complete use up again for this member's repeat. One loss makes all members repeat: the first
// of them asks for all, and so does the last, the likeliest to come after the parent's loss is repaired. A member's
// second repeat counts as a first one. [TREE-6]
bool asks_for_all(SlotUse* use, uint8_t worker, const WorkerSet& members) {
  const bool first = use->asked_again == WorkerSet{} || use->asked_again.test(worker);
  if (first) use->asked_again = WorkerSet{};
  use->asked_again.insert(worker);
  return first || use->asked_again == members;
}

static_assert(wire::kHeaderOffsetFlags == wire::kExactHeaderOffsetFlags);
void mark_repeated(uint8_t* frame) { frame[wire::kHeaderOffsetFlags] |= wire::kFlagRepeat; }

SessionEntry* drop(Counter& counter) {
  counter.add(1);
  return nullptr;
}

}  // namespace

// ---- output ----

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
  if (use.borrowed_in != burst) return;
  out.reclaim();
  ++burst;
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

SwitchCounters SoftSwitch::counters() const { return impl_->counters; }

void SoftSwitch::begin_burst() { ++impl_->burst; }

void SoftSwitch::process(const RxFrame& frame, Time now, PacketSink& out) {
  impl_->counters.packets_received.add(1);
  impl_->counters.bytes_received.add(frame.size);
  if (frame.size > 0 && wire::kind_of(frame.data) == static_cast<uint8_t>(wire::Kind::kRequest))
    return impl_->request(frame.data, frame.size, frame.from, now, out);
  PacketContext context{impl_->burst, impl_->counters, out};
  impl_->data(frame, now, context);
}

void SoftSwitch::invite(uint64_t client_key) {
  impl_->invited[impl_->invitations++ % impl_->invited.size()] = client_key;
}

void SoftSwitch::sweep(Time now) { impl_->expire(impl_->table.expired(now)); }

void SoftSwitch::hand_requests_to(ControlTap* tap) { impl_->tap = tap; }
void SoftSwitch::answer_meets_by(MeetTap* tap) { impl_->meet_tap = tap; }
JoinOutcome SoftSwitch::join(const wire::Join& asked, const Endpoint& from, Time now) {
  return impl_->table.join(asked, from, now);
}
bool SoftSwitch::serves(uint8_t job, uint32_t epoch) const { return impl_->table.find(job, epoch) != nullptr; }
Endpoint SoftSwitch::joined_from(const wire::Membership& member, int shard) const {
  const SessionEntry* session = impl_->table.find(member.job, member.epoch);
  const bool is_known = session != nullptr && session->granted().session_key == member.session_key &&
                        member.worker < session->workers() && shard < session->shards();
  return is_known ? session->member(member.worker, shard) : Endpoint();
}

SoftSwitch::Impl::Impl(const SwitchOptions& options)
    : slot_memory_bytes(options.slot_memory_bytes),
      max_payload_bytes(options.max_payload_bytes),
      client_of(options.client_of),
      by_invitation(options.by_invitation),
      table(session_limits(options)) {}

void SoftSwitch::Impl::data(const RxFrame& frame, Time now, PacketContext& context) {
  if (frame.size < wire::kHeaderBytes) return context.drop(wire::ParseError::kShort);
  switch (static_cast<wire::Kind>(wire::kind_of(frame.data))) {
    case wire::Kind::kContribution: return contribution(kInteger, frame, now, context);
    case wire::Kind::kExactContribution: return contribution(kExact, frame, now, context);  // [EXACT-12]
    case wire::Kind::kResult: return hand_on(kInteger, frame, context);
    case wire::Kind::kExactResult: return hand_on(kExact, frame, context);
    default: break;
  }
  const bool is_ours = wire::version_of(frame.data) == wire::kVersion;
  context.drop(is_ours ? wire::ParseError::kKind : wire::ParseError::kOtherVersion);
}

void SoftSwitch::Impl::contribution(const Aggregator& format, const RxFrame& frame, Time now, PacketContext& context) {
  Arrival arrival;
  wire::ParseError error = format.parse(frame.data, frame.size, false, &arrival);
  if (arrival.target && frame.from.carrier != Carrier::kRdma) error = wire::ParseError::kLength;  // [RDMA-6]
  if (error != wire::ParseError::kNone) return context.drop(error);
  SessionEntry* session = admit(format, arrival, frame.from, context.counters);
  if (session == nullptr) return;  // [DROP-11]
  if (!frame.is_direct && !format.is_intact(frame.data, frame.size, session->checksum_rule())) {
    return context.drop(wire::ParseError::kChecksum);
  }
  session->note_via(arrival.worker, session->shard_of(arrival.slot), frame.from.via);
  session->last_heard = now;
  aggregate(format, *session, arrival, frame, context);
}

const Aggregator& SoftSwitch::Impl::format_of(const SessionEntry& session) {
  if (session.exact()) return kExact;
  return kInteger;
}

SessionEntry* SoftSwitch::Impl::admit(const Aggregator& format, const Arrival& arrival, const Endpoint& from,
                                      SwitchCounters& counts) {
  SessionEntry* session = table.find(arrival.job, arrival.epoch);
  if (session == nullptr) return drop(counts.dropped_session);                   // [DROP-7]
  if (&format_of(*session) != &format) return drop(counts.dropped_kind);         // [EXACT-3]
  if (arrival.worker >= session->workers()) return drop(counts.dropped_worker);  // [DROP-9]
  if (arrival.slot >= session->slots()) return drop(counts.dropped_slot);        // [BASE-4, PKT-9, DROP-8]
  const Endpoint& member = session->member(arrival.worker, session->shard_of(arrival.slot));
  if (member.size == 0) return drop(counts.dropped_worker);  // [DROP-10]
  if (member != from) {
    // The worker's packet from another of its sockets is for a slot of another shard. [DROP-10]
    return drop(session->speaks_for(arrival.worker, from) ? counts.dropped_slot : counts.dropped_source);
  }
  return session->takes(arrival.room) ? session : drop(counts.dropped_length);  // [DROP-4, ZERO-3]
}

SessionEntry* SoftSwitch::Impl::admit_result(const Aggregator& format, const Arrival& arrival, const Endpoint& from,
                                             SwitchCounters& counts) {
  SessionEntry* leaf = table.find(arrival.job, arrival.epoch);
  if (leaf == nullptr) return drop(counts.dropped_session);
  if (leaf->uplink() == nullptr || &format_of(*leaf) != &format) return drop(counts.dropped_kind);  // [TREE-8, EXACT-3]
  if (leaf->uplink()->parent != from) return drop(counts.dropped_source);                           // [TREE-8]
  if (arrival.slot >= leaf->slots()) return drop(counts.dropped_slot);
  return leaf->takes(arrival.room) ? leaf : drop(counts.dropped_length);
}

void SoftSwitch::Impl::aggregate(const Aggregator& format, const SessionEntry& session, const Arrival& arrival,
                                 const RxFrame& frame, PacketContext& context) {
  SlotStore& store = *stores[arrival.job];
  SlotUse& use = store.use(arrival.slot, arrival.seq);
  const bool late = format.is_overtaken(store.use(arrival.slot, arrival.seq + 1), arrival);
  if (late && !use.holds(arrival.epoch, arrival.seq)) return context.counters.dropped_stale.add(1);

  const Sequence sequence = check_sequence(&use.pair, arrival.epoch, arrival.seq);
  switch (sequence) {
    case Sequence::kStale: return context.counters.dropped_stale.add(1);  // [SLOT-9]
    case Sequence::kNew:                                                  // [SLOT-5]
      context.reclaim(use);
      use.restart();
      use.ecn = frame.ecn;
      context.counters.uses_started.add(1);
      break;
    case Sequence::kSame:
      if (use.complete || use.contributed.test(arrival.worker))
        return duplicate(format, session, &use, arrival, frame, context);  // [SLOT-7, SLOT-8]
      if (late) return context.counters.dropped_stale.add(1);
      break;
  }
  use.contributed.insert(arrival.worker);
  format.add(arrival, sequence == Sequence::kNew, &use, &store);  // [SLOT-6]
  use.ecn = together(use.ecn, frame.ecn);                         // [ECN-1]
  context.counters.contributions_added.add(1);
  context.counters.elements_added.add(arrival.elements);

  if (!(use.contributed == session.expected())) return format.keep(arrival, &store);  // [SLOT-12]
  const Uplink* uplink = session.uplink();
  format.complete(arrival, &use, &store, session.checksum_rule(),
                  uplink != nullptr ? std::optional(uplink->worker) : std::nullopt);
  context.counters.uses_completed.add(1);
  use.borrowed_in = context.burst;
  const uint8_t* payload = store.payload(arrival.slot, arrival.seq);
  const SwitchFrame whole = format.whole_frame(use, payload);
  if (uplink != nullptr) return context.unicast(whole.data, whole.size, uplink->parent, use.ecn);  // [TREE-4, ETREE-2]
  to_members(format, session, use, arrival, whole, format.bare_frame(payload), use.ecn, context);
}

// [SLOT-12, TREE-3, EXACT-18]
void SoftSwitch::Impl::to_members(const Aggregator& format, const SessionEntry& session, const SlotUse& use,
                                  const Arrival& at, const SwitchFrame& whole, const SwitchFrame& bare, Ecn ecn,
                                  PacketContext& context) {
  const int shard = session.shard_of(at.slot);
  if (use.want_none == WorkerSet{} && use.with_target == WorkerSet{}) {
    const std::vector<const Endpoint*>& all = session.audience(shard);
    return context.multicast(whole.data, whole.size, all.data(), all.size(), ecn);
  }
  SlotStore& store = *stores[at.job];
  const uint8_t* payload = store.payload(at.slot, at.seq);
  std::array<const Endpoint*, kMaxWorkers> to;
  for (const bool wants_none : {false, true}) {
    size_t count = 0;
    for (int worker = 0; worker < session.workers(); ++worker) {
      const Endpoint& member = session.member(worker, shard);
      if (use.want_none.test(worker) != wants_none || member.size == 0) continue;
      const wire::Target& target = store.target(at.slot, static_cast<uint8_t>(worker));
      if (!wants_none && use.with_target.test(worker) && use.bytes > 0 && target.bytes == use.bytes) {  // [RDMA-7]
        const SwitchFrame head = format.placed_frame(payload);
        context.write(payload, target, head.data, head.size, member);
        continue;
      }
      to[count++] = &member;
    }
    const SwitchFrame& frame = wants_none ? bare : whole;
    if (count > 0) context.multicast(frame.data, frame.size, to.data(), count, ecn);
  }
}

// [LOSS-2, LOSS-3, EXACT-13]
void SoftSwitch::Impl::duplicate(const Aggregator& format, const SessionEntry& session, SlotUse* use,
                                 const Arrival& arrival, const RxFrame& asking, PacketContext& context) {
  const bool leaf = session.uplink() != nullptr;
  if (!use->complete || (leaf && !asks_for_all(use, arrival.worker, session.expected())))
    return context.counters.duplicates_dropped.add(1);  // [SLOT-7, TREE-6, ETREE-4]
  context.counters.duplicates_answered.add(1);
  uint8_t* payload = stores[arrival.job]->payload(arrival.slot, arrival.seq);
  if (leaf) {  // [TREE-6, ETREE-4]
    context.reclaim(*use);
    mark_repeated(payload - format.header_bytes());
  }
  use->borrowed_in = context.burst;
  const SwitchFrame frame = format.repeated_frame(*use, payload, arrival.worker, asking.size, leaf);
  context.unicast(frame.data, frame.size, leaf ? session.uplink()->parent : asking.from, asking.ecn);
}

// [TREE-7, ETREE-5]
void SoftSwitch::Impl::hand_on(const Aggregator& format, const RxFrame& frame, PacketContext& context) {
  SwitchCounters& counts = context.counters;
  Arrival result;
  const wire::ParseError error = format.parse(frame.data, frame.size, true, &result);
  if (error != wire::ParseError::kNone) return context.drop(error);
  const SessionEntry* session = admit_result(format, result, frame.from, counts);
  if (session == nullptr) return;
  if (!format.is_intact(frame.data, frame.size, session->checksum_rule())) return counts.dropped_checksum.add(1);
  SlotStore& store = *stores[result.job];
  SlotUse& use = store.use(result.slot, result.seq);
  if (!format.hands_on(use, result)) return counts.dropped_stale.add(1);
  counts.results_passed_down.add(1);
  if (use.holds(result.epoch, result.seq)) use.asked_again = WorkerSet{};  // [TREE-6, ETREE-4]
  const SwitchFrame whole{frame.data, frame.size};
  SwitchFrame bare = whole;
  if (result.bytes > 0 && !(use.want_none == WorkerSet{})) {  // The bare frame has another checksum.
    uint8_t* payload = store.payload(result.slot, result.seq);
    context.reclaim(use);
    format.make_bare_frame(frame.data, session->checksum_rule(), payload);
    use.borrowed_in = context.burst;
    bare = format.bare_frame(payload);
  }
  to_members(format, *session, use, result, whole, bare, frame.ecn, context);  // [ECN-2]
}

void SoftSwitch::Impl::end(uint8_t job) {
  stores[job].reset();
  table.end(job);
}

}  // namespace switchml::softswitch
