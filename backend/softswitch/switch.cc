#include "softswitch/switch.h"

#include "softswitch/aggregator.h"
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
  limits.receive_buffer_bytes = options.receive_buffer_bytes;
  limits.lease = options.lease;
  limits.seed = options.seed;
  return limits;
}

}  // namespace

SoftSwitch::SoftSwitch(const SwitchOptions& options) : impl_(std::make_unique<Impl>(options)) {}
SoftSwitch::~SoftSwitch() = default;
const SwitchCounters& SoftSwitch::counters() const { return impl_->counters; }
size_t SoftSwitch::slot_memory_in_use() const { return impl_->table.slot_memory_in_use(); }
int SoftSwitch::sessions() const { return impl_->table.sessions(); }

void SoftSwitch::process(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out) {
  SwitchCounters& counters = impl_->counters;
  counters.packets_received.add(1);
  counters.bytes_received.add(size);
  if (size > 0 && wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kRequest)) {
    impl_->request(frame, size, from, now, out);
  } else {
    impl_->contribution(frame, size, from, now, out);
  }
}

void SoftSwitch::sweep(Time now) { impl_->expire(impl_->table.expired(now)); }

void SoftSwitch::hand_requests_to(ControlTap* tap) { impl_->tap = tap; }

SoftSwitch::Impl::Impl(const SwitchOptions& options)
    : slot_memory_bytes(options.slot_memory_bytes),
      max_payload_bytes(options.max_payload_bytes),
      client_of(options.client_of),
      table(session_limits(options)) {}

void SoftSwitch::Impl::contribution(const uint8_t* frame, size_t size, const Endpoint& from, Time now,
                                    PacketSink& out) {
  wire::DataPacket packet;
  const wire::ParseError error = wire::parse_data(frame, size, wire::Kind::kContribution, &packet);
  if (error == wire::ParseError::kKind && wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kResult)) {
    return pass_down(frame, size, from, out);
  }
  if (error != wire::ParseError::kNone) return count_parse_error(error);
  SessionEntry* session = admit(packet, from);
  if (session == nullptr) return;
  session->last_heard = now;
  aggregate(*session, packet, from, out);
}

SessionEntry* SoftSwitch::Impl::admit(const wire::DataPacket& packet, const Endpoint& from) {
  const wire::Header& header = packet.header;
  const auto drop = [](Counter& counter) -> SessionEntry* {
    counter.add(1);
    return nullptr;
  };
  SessionEntry* session = table.find(header.job, header.epoch);
  if (session == nullptr) return drop(counters.dropped_session);
  if (header.worker >= session->workers()) return drop(counters.dropped_worker);
  if (header.slot >= session->slots()) return drop(counters.dropped_slot);
  const Endpoint& member = session->member(header.worker, session->shard_of(header.slot));
  if (member.size == 0) return drop(counters.dropped_worker);
  if (member != from) {
    // The right worker through the wrong one of its sockets is a slot of another shard; anybody else is a stranger.
    return drop(session->speaks_for(header.worker, from) ? counters.dropped_slot : counters.dropped_source);
  }
  if (member.via != from.via) session->note_via(header.worker, session->shard_of(header.slot), from.via);
  return session->takes(packet.words) ? session : drop(counters.dropped_length);
}

void SoftSwitch::Impl::aggregate(const SessionEntry& session, const wire::DataPacket& packet, const Endpoint& from,
                                 PacketSink& out) {
  const wire::Header& header = packet.header;
  SlotStore& store = *stores[header.job];
  SlotUse& use = store.use(header.slot, header.seq);
  int32_t* words = store.words(header.slot, header.seq);
  uint8_t* frame = store.frame(header.slot, header.seq);

  switch (check_sequence(&use.pair, header.epoch, header.seq)) {
    case Sequence::kStale: return counters.dropped_stale.add(1);
    case Sequence::kNew:
      take_over(&use, words, packet);
      counters.uses_started.add(1);
      break;
    case Sequence::kSame:
      if (use.complete || !use.contributed.insert(header.worker)) return duplicate(session, use, frame, from, out);
      merge(&use, words, packet);
      break;
  }
  counters.contributions_added.add(1);
  counters.elements_added.add(packet.words);

  if (!(use.contributed == session.expected())) return;
  Outcome outcome;
  if (session.uplink() != nullptr) outcome = {wire::Kind::kContribution, session.uplink()->worker};
  const size_t size = complete(&use, words, frame, packet, outcome);
  counters.uses_completed.add(1);
  forward(session, header.slot, frame, size, out);
}

void SoftSwitch::Impl::forward(const SessionEntry& session, uint16_t slot, const uint8_t* frame, size_t size,
                               PacketSink& out) {
  if (session.uplink() != nullptr) return unicast(frame, size, session.uplink()->parent, out);
  const auto& audience = session.audience(session.shard_of(slot));
  counters.packets_sent.add(audience.size());
  counters.bytes_sent.add(audience.size() * size);
  out.multicast(frame, size, audience.data(), audience.size());
}

void SoftSwitch::Impl::duplicate(const SessionEntry& session, const SlotUse& use, uint8_t* frame, const Endpoint& from,
                                 PacketSink& out) {
  if (!use.complete) return counters.duplicates_dropped.add(1);
  counters.duplicates_answered.add(1);
  if (session.uplink() == nullptr) return unicast(frame, result_bytes(use), from, out);
  // A leaf has no result to give: the aggregate goes up again, and the parent's answer comes down to all.
  mark_repeated(frame);
  unicast(frame, result_bytes(use), session.uplink()->parent, out);
}

void SoftSwitch::Impl::pass_down(const uint8_t* frame, size_t size, const Endpoint& from, PacketSink& out) {
  wire::DataPacket packet;
  const wire::ParseError error = wire::parse_data(frame, size, wire::Kind::kResult, &packet);
  if (error != wire::ParseError::kNone) return count_parse_error(error);
  const wire::Header& header = packet.header;
  SessionEntry* session = table.find(header.job, header.epoch);
  if (session == nullptr) return counters.dropped_session.add(1);
  if (session->uplink() == nullptr) return counters.dropped_kind.add(1);
  if (session->uplink()->parent != from) return counters.dropped_source.add(1);
  if (header.slot >= session->slots()) return counters.dropped_slot.add(1);
  if (!session->takes(packet.words)) return counters.dropped_length.add(1);
  const auto& audience = session->audience(session->shard_of(header.slot));
  counters.results_passed_down.add(1);
  counters.packets_sent.add(audience.size());
  counters.bytes_sent.add(audience.size() * size);
  out.multicast(frame, size, audience.data(), audience.size());
}

void SoftSwitch::Impl::unicast(const uint8_t* frame, size_t size, const Endpoint& to, PacketSink& out) {
  counters.packets_sent.add(1);
  counters.bytes_sent.add(size);
  out.unicast(frame, size, to);
}

void SoftSwitch::Impl::count_parse_error(wire::ParseError error) {
  switch (error) {
    case wire::ParseError::kNone: break;
    case wire::ParseError::kShort: return counters.dropped_short.add(1);
    case wire::ParseError::kOtherVersion: return counters.dropped_version.add(1);
    case wire::ParseError::kKind: return counters.dropped_kind.add(1);
    case wire::ParseError::kLength: return counters.dropped_length.add(1);
    case wire::ParseError::kOperation: return counters.dropped_operation.add(1);
    case wire::ParseError::kSeq: return counters.dropped_seq.add(1);
  }
}

void SoftSwitch::Impl::end(uint8_t job) {
  stores[job].reset();
  table.end(job);
}

}  // namespace switchml::softswitch
