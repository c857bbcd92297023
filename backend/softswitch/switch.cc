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

void SoftSwitch::sweep(Time now) {
  for (const uint8_t job : impl_->table.expired(now)) {
    impl_->counters.sessions_expired.add(1);
    impl_->end(job);
  }
}

SoftSwitch::Impl::Impl(const SwitchOptions& options) : table(session_limits(options)) {}

void SoftSwitch::Impl::contribution(const uint8_t* frame, size_t size, const Endpoint& from, Time now,
                                    PacketSink& out) {
  wire::DataPacket packet;
  const wire::ParseError error = wire::parse_data(frame, size, wire::Kind::kContribution, &packet);
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
  const size_t bytes = packet.words * kWordBytes;
  const bool partial = bytes != 0 && bytes != session->payload_bytes();
  if (bytes > session->payload_bytes() || (partial && session->whole_chunks())) return drop(counters.dropped_length);
  return session;
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
      if (use.complete || !use.contributed.insert(header.worker)) return duplicate(use, frame, from, out);
      merge(&use, words, packet);
      break;
  }
  counters.contributions_added.add(1);
  counters.elements_added.add(packet.words);

  if (use.contributed.count() < session.workers()) return;
  const size_t size = complete(&use, words, frame, packet);
  counters.uses_completed.add(1);
  const auto& audience = session.audience(session.shard_of(header.slot));
  counters.packets_sent.add(audience.size());
  counters.bytes_sent.add(audience.size() * size);
  out.multicast(frame, size, audience.data(), audience.size());
}

void SoftSwitch::Impl::duplicate(const SlotUse& use, const uint8_t* result, const Endpoint& from, PacketSink& out) {
  if (!use.complete) return counters.duplicates_dropped.add(1);
  counters.duplicates_answered.add(1);
  unicast(result, result_bytes(use), from, out);
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
