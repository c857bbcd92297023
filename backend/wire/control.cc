#include "wire/control.h"

#include "wire/checksum.h"

namespace switchml::wire {

namespace {

uint8_t* write_start(Request type, uint32_t request_id, uint8_t* out) {
  Control control;
  control.version = kVersion;
  control.kind = static_cast<uint8_t>(Kind::kRequest);
  control.type = static_cast<uint8_t>(type);
  control.request_id = request_id;
  write_control(control, out);
  return out + kControlBytes;
}

size_t body_bytes_of(Request type) {
  switch (type) {
    case Request::kOpen: return kOpenReplyBytes;
    case Request::kJoin: return kJoinReplyBytes;
    case Request::kClose: return 0;
    case Request::kProbe: return kProbeReplyBytes;
    case Request::kMeet: return kMeetReplyBytes;
  }
  return 0;
}

bool known(uint8_t type) { return type >= 1 && type <= static_cast<uint8_t>(Request::kMeet); }
bool known_status(uint16_t status) { return status <= static_cast<uint16_t>(ReplyStatus::kNoCard); }

Join join_of(const Membership& member, int shard) {
  Join join;
  join.session_key = member.session_key;
  join.epoch = member.epoch;
  join.job = member.job;
  join.worker = member.worker;
  join.shard = static_cast<uint16_t>(shard);
  join.cookie = member.cookie;
  return join;
}

}  // namespace

size_t build_open(const Open& open, uint32_t request_id, uint8_t* out) {
  write_open(open, write_start(Request::kOpen, request_id, out));
  return seal_control(out, kControlBytes + kOpenBytes);
}

size_t build_join(const Membership& member, int shard, uint32_t request_id, uint8_t* out) {
  write_join(join_of(member, shard), write_start(Request::kJoin, request_id, out));
  return seal_control(out, kControlBytes + kJoinBytes);
}

bool introduces(const Introduction& introduction, Service service) {
  const bool is_numbered = introduction.queue_pair != 0 && introduction.queue_pair <= kMost24Bits;
  return is_numbered && introduction.first_psn <= kMost24Bits && introduction.mtu >= 1 && introduction.mtu <= 5 &&
         introduction.service == static_cast<uint8_t>(service);
}

size_t build_meet(const Membership& member, int shard, const Introduction& own, uint32_t request_id, uint8_t* out) {
  uint8_t* const body = write_start(Request::kMeet, request_id, out);
  write_join(join_of(member, shard), body);
  write_introduction(own, body + kJoinBytes);
  return seal_control(out, kControlBytes + kMeetBytes);
}

size_t build_close(const Membership& member, uint32_t request_id, uint8_t* out) {
  Close close;
  close.session_key = member.session_key;
  close.epoch = member.epoch;
  close.job = member.job;
  close.worker = member.worker;
  write_close(close, write_start(Request::kClose, request_id, out));
  return seal_control(out, kControlBytes + kCloseBytes);
}

size_t build_probe(const Membership& member, uint16_t slot, uint32_t seq, uint32_t request_id, uint8_t* out) {
  Probe probe;
  probe.epoch = member.epoch;
  probe.job = member.job;
  probe.worker = member.worker;
  probe.slot = slot;
  probe.seq = seq;
  write_probe(probe, write_start(Request::kProbe, request_id, out));
  return seal_control(out, kControlBytes + kProbeBytes);
}

size_t request_body_bytes(uint8_t type) {
  switch (static_cast<Request>(type)) {
    case Request::kOpen: return kOpenBytes;
    case Request::kJoin: return kJoinBytes;
    case Request::kClose: return kCloseBytes;
    case Request::kProbe: return kProbeBytes;
    case Request::kMeet: return kMeetBytes;
  }
  return 0;
}

size_t finish_reply(const Control& asked, ReplyStatus status, uint8_t* out) {
  Control control;
  control.version = kVersion;
  control.kind = static_cast<uint8_t>(Kind::kReply);  // [CTL-2]
  control.type = asked.type;
  control.status = static_cast<uint16_t>(status);
  control.request_id = asked.request_id;
  write_control(control, out);
  if (status == ReplyStatus::kBadVersion) return kControlBytes;  // Every version can read these. [CTL-8]
  return seal_control(out, kControlBytes + (has_body(status) ? body_bytes_of(static_cast<Request>(asked.type)) : 0));
}

ParseError parse_reply(const uint8_t* frame, size_t size, Reply* out) {
  ControlPacket packet;
  const ParseError error = parse_control(frame, size, Kind::kReply, &packet);
  if (error != ParseError::kNone && error != ParseError::kOtherVersion) return error;
  const Control& control = packet.control;
  if (!known(control.type) || !known_status(control.status)) return ParseError::kKind;
  Reply reply;
  reply.type = static_cast<Request>(control.type);
  reply.status = static_cast<ReplyStatus>(control.status);
  reply.version = control.version;
  reply.request_id = control.request_id;
  const bool is_other = error == ParseError::kOtherVersion;
  if (is_other && (reply.status != ReplyStatus::kBadVersion || size != kControlBytes)) return error;
  if (!is_other && reply.status == ReplyStatus::kBadVersion) return ParseError::kKind;  // [CTL-9]
  const bool joins = reply.type == Request::kJoin || reply.type == Request::kMeet;
  if (reply.status == ReplyStatus::kProveAddress && !joins) return ParseError::kKind;
  if (has_body(reply.status)) {
    if (packet.body_bytes != body_bytes_of(reply.type)) return ParseError::kLength;
    if (reply.type == Request::kOpen) reply.open = read_open_reply(packet.body);
    if (joins) reply.join = read_join_reply(packet.body);
    if (reply.type == Request::kMeet) reply.introduction = read_introduction(packet.body + kJoinReplyBytes);
    if (reply.type == Request::kProbe) reply.probe = read_probe_reply(packet.body);
  }
  *out = reply;
  return ParseError::kNone;
}

const char* to_string(ReplyStatus status) {
  switch (status) {
    case ReplyStatus::kOk: return "ok";
    case ReplyStatus::kBadVersion: return "another protocol version";
    case ReplyStatus::kBadRequest: return "bad request";
    case ReplyStatus::kNoSlots: return "no slot memory left";
    case ReplyStatus::kNoJobs: return "no job number left";
    case ReplyStatus::kUnknownSession: return "unknown session";
    case ReplyStatus::kTooManyWorkers: return "too many workers";
    case ReplyStatus::kPayloadUnsupported: return "payload size not supported";
    case ReplyStatus::kNotMember: return "not a member";
    case ReplyStatus::kControlled: return "the switch has a controller";
    case ReplyStatus::kQuota: return "the client's quota is used up";
    case ReplyStatus::kProveAddress: return "the address is not proven";
    case ReplyStatus::kNotInvited: return "the switch serves one group alone";
    case ReplyStatus::kNoCard: return "the switch's card gives no queue pair";
  }
  return "?";
}

const char* to_string(Request type) {
  switch (type) {
    case Request::kOpen: return "open";
    case Request::kJoin: return "join";
    case Request::kClose: return "close";
    case Request::kProbe: return "probe";
    case Request::kMeet: return "meet";
  }
  return "?";
}

}  // namespace switchml::wire
