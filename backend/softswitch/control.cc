// Control requests: checks lengths, asks the SessionTable, writes the reply.
#include "wire/control.h"

#include "softswitch/pipeline.h"

namespace switchml::softswitch {

using wire::ReplyStatus;
using wire::Request;

namespace {

struct BodySizes {
  size_t request;
  size_t reply;
};

// Sizes of the bodies behind the fixed part; {0, 0} for a type that does not exist.
BodySizes body_sizes(uint8_t type) {
  switch (static_cast<Request>(type)) {
    case Request::kOpen: return {wire::kOpenBytes, wire::kOpenReplyBytes};
    case Request::kJoin: return {wire::kJoinBytes, wire::kJoinReplyBytes};
    case Request::kClose: return {wire::kCloseBytes, 0};
    case Request::kProbe: return {wire::kProbeBytes, wire::kProbeReplyBytes};
  }
  return {0, 0};
}

// The fixed part of a reply is the same in every version, so that a worker of another one learns which version this is.
void write_start(const wire::Control& asked, ReplyStatus status, uint8_t* out) {
  wire::Control control;
  control.version = wire::kVersion;
  control.kind = static_cast<uint8_t>(wire::Kind::kReply);
  control.type = asked.type;
  control.status = static_cast<uint16_t>(status);
  control.request_id = asked.request_id;
  wire::write_control(control, out);
}

}  // namespace

void SoftSwitch::Impl::request(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out) {
  wire::ControlPacket packet;
  const wire::ParseError error = wire::parse_control(frame, size, wire::Kind::kRequest, &packet);
  const bool other_version = error == wire::ParseError::kOtherVersion;
  if (error != wire::ParseError::kNone && !other_version) return counters.control_malformed.add(1);

  uint8_t reply[wire::kMaxControlBytes] = {};
  ReplyStatus status = ReplyStatus::kBadVersion;
  const BodySizes sizes = body_sizes(packet.control.type);
  if (!other_version) {
    if (sizes.request == 0 || packet.body_bytes != sizes.request) return counters.control_malformed.add(1);
    uint8_t* body = reply + wire::kControlBytes;
    switch (static_cast<Request>(packet.control.type)) {
      case Request::kOpen: status = open(packet.body, now, body); break;
      case Request::kJoin: status = join(packet.body, from, now, body); break;
      case Request::kClose: status = close(packet.body, now); break;
      case Request::kProbe: status = probe(packet.body, from, now, body); break;
    }
  }
  counters.control_requests.add(1);
  write_start(packet.control, status, reply);
  unicast(reply, wire::kControlBytes + (status == ReplyStatus::kOk ? sizes.reply : 0), from, out);
}

ReplyStatus SoftSwitch::Impl::open(const uint8_t* body, Time now, uint8_t* reply) {
  const SessionTable::Opened opened = table.open(wire::read_open(body), now);
  if (opened.status != ReplyStatus::kOk) return opened.status;
  if (opened.fresh != nullptr) {
    const uint8_t job = opened.fresh->job();
    stores[job] = SlotStore::create(opened.fresh->slots(), opened.fresh->payload_bytes());
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
  const SessionTable::Joined joined = table.join(wire::read_join(body), from, now);
  if (joined.status == ReplyStatus::kOk) wire::write_join_reply(joined.reply, reply);
  return joined.status;
}

ReplyStatus SoftSwitch::Impl::close(const uint8_t* body, Time now) {
  const wire::Close asked = wire::read_close(body);
  const SessionTable::Closed closed = table.close(asked, now);
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
  if (asked.worker >= session->workers() || !session->speaks_for(asked.worker, from)) return ReplyStatus::kNotMember;
  if (asked.slot >= session->slots() || asked.seq == 0) return ReplyStatus::kBadRequest;
  session->last_heard = now;

  // A use that another one has replaced was complete, or nobody would have gone on.
  const SlotUse& use = stores[asked.job]->use(asked.slot, asked.seq);
  WorkerSet contributed;
  if (use.pair.epoch == asked.epoch && use.pair.seq != 0) {
    if (use.pair.seq == asked.seq) contributed = use.contributed;
    if (wire::newer_seq(use.pair.seq, asked.seq)) contributed = WorkerSet::first(session->workers());
  }
  const WorkerSet joined = session->joined_workers();
  wire::ProbeReply answer;
  answer.slot = asked.slot;
  answer.seq = asked.seq;
  answer.joined_low = joined.low;
  answer.joined_high = joined.high;
  answer.contributed_low = contributed.low;
  answer.contributed_high = contributed.high;
  wire::write_probe_reply(answer, reply);
  return ReplyStatus::kOk;
}

}  // namespace switchml::softswitch
