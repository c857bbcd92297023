// Control requests: checks lengths, asks the SessionTable, writes the reply.
#include <algorithm>

#include "softswitch/pipeline.h"
#include "wire/control.h"

namespace switchml::softswitch {

using wire::ReplyStatus;
using wire::Request;

void SoftSwitch::Impl::request(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out) {
  wire::ControlPacket packet;
  const wire::ParseError error = wire::parse_control(frame, size, wire::Kind::kRequest, &packet);
  const bool opens = error == wire::ParseError::kNone && packet.control.type == static_cast<uint8_t>(Request::kOpen);
  if (tap != nullptr && !opens) {
    counters.control_requests.add(1);
    return tap->request(frame, size, from);
  }
  out.reclaim();  // A request may end a session, and a sink may still have its results.
  const bool other_version = error == wire::ParseError::kOtherVersion;
  if (error != wire::ParseError::kNone && !other_version) return counters.control_malformed.add(1);  // [CTL-4]

  uint8_t reply[wire::kMaxControlBytes] = {};
  ReplyStatus status = ReplyStatus::kBadVersion;  // [CTL-3]
  if (!other_version) {
    const size_t bytes = wire::request_body_bytes(packet.control.type);
    const bool meets = static_cast<Request>(packet.control.type) == Request::kMeet;
    // [CTL-4, MEET-3]
    if (bytes == 0 || packet.body_bytes != bytes || (meets && meet_tap == nullptr)) {
      return counters.control_malformed.add(1);
    }
    if (meets) {
      counters.control_requests.add(1);
      const wire::Introduction its = wire::read_introduction(packet.body + wire::kJoinBytes);
      return meet_tap->meet(wire::read_join(packet.body), its, packet.control.request_id, from);
    }
    uint8_t* body = reply + wire::kControlBytes;
    switch (static_cast<Request>(packet.control.type)) {
      case Request::kOpen: status = open(packet.body, from, now, body); break;
      case Request::kJoin: status = join(packet.body, from, now, body); break;
      case Request::kClose: status = close(packet.body, now); break;
      case Request::kProbe: status = probe(packet.body, from, now, body); break;
      case Request::kMeet: break;
    }
  }
  counters.control_requests.add(1);
  const size_t reply_bytes = wire::finish_reply(packet.control, status, reply);
  counters.packets_sent.add(1);
  counters.bytes_sent.add(reply_bytes);
  out.unicast(reply, reply_bytes, from);
  out.reclaim();  // The reply is on this function's stack.
}

void SoftSwitch::Impl::expire(const std::vector<uint8_t>& jobs) {
  for (const uint8_t job : jobs) {
    counters.sessions_expired.add(1);
    end(job);
  }
}

// Ends no more silent sessions than necessary: they may be suspended, and go on later. The client's own sessions end
// first, for its quota; then any, for the switch's memory. [LEASE-2]
void SoftSwitch::Impl::make_room(const wire::Open& asked, const Endpoint& client, Time now) {
  if (!table.lacks_quota(asked, client) && !table.lacks_room(asked, client)) return;
  for (const uint8_t job : table.silent(now)) {
    if (table.lacks_quota(asked, client) && table.find(job)->client() == client) expire({job});
  }
  for (const uint8_t job : table.silent(now)) {
    if (table.lacks_room(asked, client)) expire({job});
  }
}

ReplyStatus SoftSwitch::Impl::open(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply) {
  if (tap != nullptr) return ReplyStatus::kControlled;  // Also while no controller is connected.
  const Endpoint client = client_of == nullptr ? Endpoint{} : client_of(from);
  const wire::Open asked = wire::read_open(body);
  if (by_invitation && std::count(invited.begin(), invited.end(), asked.client_key) == 0) {
    return ReplyStatus::kNotInvited;
  }
  make_room(asked, client, now);
  const OpenOutcome opened = table.open(asked, now, client);
  if (opened.status != ReplyStatus::kOk) return opened.status;
  if (opened.fresh != nullptr) {
    const uint8_t job = opened.fresh->job();
    const SessionEntry& fresh = *opened.fresh;
    stores[job] = SlotStore::create(fresh.slots(), fresh.payload_bytes(), fresh.kept());
    if (!stores[job]) {
      table.end(job);
      return ReplyStatus::kNoSlots;
    }
    counters.sessions_opened.add(1);
  }
  wire::write_open_reply(opened.reply, reply);
  return ReplyStatus::kOk;
}

ReplyStatus SoftSwitch::Impl::join(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply) {
  const JoinOutcome joined = table.join(wire::read_join(body), from, now);
  if (wire::has_body(joined.status)) wire::write_join_reply(joined.reply, reply);
  return joined.status;
}

ReplyStatus SoftSwitch::Impl::close(const uint8_t* body, Time now) {
  const wire::Close asked = wire::read_close(body);
  const CloseOutcome closed = table.close(asked, now);
  if (closed.last) {
    counters.sessions_closed.add(1);
    end(asked.job);
  }
  return closed.status;
}

ReplyStatus SoftSwitch::Impl::probe(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply) {
  const wire::Probe asked = wire::read_probe(body);
  SessionEntry* session = table.find(asked.job, asked.epoch);
  if (session == nullptr) return ReplyStatus::kUnknownSession;
  // [PROBE-1]
  if (asked.worker >= session->workers() || !session->speaks_for(asked.worker, from)) return ReplyStatus::kNotMember;
  if (asked.slot >= session->slots() || asked.seq == 0) return ReplyStatus::kBadRequest;  // [PROBE-1]
  session->last_heard = now;                                                              // [LEASE-1]

  const WorkerSet contributed = contributors(*session, asked.slot, asked.seq);
  const WorkerSet joined = session->joined_workers();
  wire::ProbeReply answer;
  answer.slot = asked.slot;
  answer.dropped_length = wire::capped(counters.dropped_length.get());  // [PROBE-3, PROBE-4]
  answer.seq = asked.seq;
  answer.joined_low = joined.low;
  answer.joined_high = joined.high;
  answer.contributed_low = contributed.low;
  answer.contributed_high = contributed.high;
  wire::write_probe_reply(answer, reply);
  return ReplyStatus::kOk;
}

// A use that a newer one has replaced was complete, or no worker would have gone on. [PROBE-2]
WorkerSet SoftSwitch::Impl::contributors(const SessionEntry& session, uint16_t slot, uint32_t seq) const {
  const SlotUse& use = stores[session.job()]->use(slot, seq);
  if (use.pair.epoch != session.epoch() || use.pair.seq == 0) return {};
  if (use.pair.seq == seq) return use.contributed;
  return wire::newer_seq(use.pair.seq, seq) ? session.expected() : WorkerSet{};
}

}  // namespace switchml::softswitch
