// Control packets of workers: the same bytes that a software switch without a controller answers by itself.
#include <utility>

#include "base/log.h"
#include "controller/pairs.h"
#include "controller/session_state.h"
#include "controller/sessions.h"
#include "wire/control.h"

namespace switchml::controller {

using wire::ReplyStatus;

namespace {

/// The reply to `asked`. If the status has a body, it is in `frame` already.
PacketOut reply_to(const wire::Control& asked, ReplyStatus status, uint8_t* frame, const SwitchPort& to) {
  return {{frame, frame + wire::finish_reply(asked, status, frame)}, to};
}

/// Sends a packet without awaiting a result: workers ask again for lost replies.
void send(int at, PacketOut packet, Effects* out) {
  Work work;
  work.commands.emplace_back(at, std::move(packet));
  out->works.push_back(std::move(work));
}

}  // namespace

WorkerSet Sessions::SessionRecord::joined_ranks(int shards) const {
  std::map<int, int> count;
  WorkerSet set;
  for (const auto& [member, how] : confirmed) {
    if (++count[member.first] == shards) set.insert(member.first);
  }
  return set;
}

wire::JoinReply Sessions::SessionRecord::join_reply(const wire::Join& asked) const {
  wire::JoinReply reply;
  reply.joined = static_cast<uint16_t>(confirmed.size());
  reply.cookie = asked.cookie;
  return reply;
}

void Sessions::packet_in(int at, const uint8_t* frame, size_t size, const SwitchPort& from, Time now, Effects* out) {
  ++counters_.requests;
  wire::ControlPacket packet;
  const wire::ParseError error = wire::parse_control(frame, size, wire::Kind::kRequest, &packet);
  const bool other_version = error == wire::ParseError::kOtherVersion;
  const auto& capabilities = state(at).capabilities();
  const bool in_vain = packet.control.type == static_cast<uint8_t>(wire::Request::kMeet) &&
                       !(capabilities && capabilities->pairs);  // [MEET-3]
  const bool whole = error == wire::ParseError::kNone && packet.body_bytes != 0 && !in_vain &&
                     packet.body_bytes == wire::request_body_bytes(packet.control.type);
  if (!other_version && !whole) {  // [CTL-4]
    ++counters_.requests_malformed;
    return;
  }
  uint8_t reply[wire::kMaxControlBytes] = {};
  uint8_t* body = reply + wire::kControlBytes;
  const ControlRequest request{at, packet.control, packet.body, from, now};
  const auto status = other_version ? ReplyStatus::kBadVersion : answer_request(request, body, out);  // [CTL-3]
  if (status) send(at, reply_to(packet.control, *status, reply, from), out);
}

// Without a status the answer follows when the switches have confirmed.
std::optional<ReplyStatus> Sessions::answer_request(const ControlRequest& request, uint8_t* body, Effects* out) {
  switch (static_cast<wire::Request>(request.control.type)) {
    case wire::Request::kOpen: return ReplyStatus::kControlled;  // Opens are calls.
    case wire::Request::kJoin: return join(request, std::nullopt, body, out);
    case wire::Request::kClose: return close(request, out);
    case wire::Request::kProbe: return probe(request, out);
    case wire::Request::kMeet: return meet(request, body, out);
  }
  return ReplyStatus::kBadRequest;
}

// ---- join ----

bool Sessions::may_join_here(const SessionRecord& session, int rank, const ControlRequest& request) const {
  const Attachment& place = session.ranks[static_cast<size_t>(rank)];
  if (place.at != request.at) return false;
  const int sender = worker_at(topology_, request.from.endpoint);
  // Only the switch that a worker is attached to knows its port.
  const auto is_next = [&](int worker) {
    return topology_.workers[static_cast<size_t>(worker)].attached == request.at;
  };
  if (sender != kNone && sender != place.worker && !is_next(sender)) return false;
  if (place.worker == kNone || request.from.port == 0 || !is_next(place.worker)) return true;
  const uint32_t port = topology_.workers[static_cast<size_t>(place.worker)].port;
  return port == 0 || port == request.from.port;
}

// A join with a queue pair for the shard. [MEET-1]
std::optional<ReplyStatus> Sessions::meet(const ControlRequest& request, uint8_t* body, Effects* out) {
  const wire::Join asked = wire::read_join(request.body);
  if (find({asked.job, asked.epoch}) == nullptr) return ReplyStatus::kUnknownSession;
  const size_t payload_bytes = table_.find(asked.job, asked.epoch)->payload_bytes();
  const auto its = wire::read_introduction(request.body + wire::kJoinBytes);
  const auto pair = pair_of(its, request.from.endpoint, payload_bytes);
  if (!pair) return ReplyStatus::kBadRequest;
  return join(request, Met{its, *pair}, body, out);
}

// Writes the body of the reply to a join, or to a meet: then with the switch's introduction. [MEET-2]
void Sessions::write_joined(const SessionRecord& session, const PendingWork& pending, uint8_t* body) const {
  wire::write_join_reply(session.join_reply(pending.join), body);
  const auto& own = session.confirmed.at({pending.join.worker, pending.join.shard}).own;
  if (!pending.met || !own) return;
  const Endpoint& address = topology_.switches[static_cast<size_t>(pending.at)].address;
  wire::write_introduction(introduction_of(*own, address, pending.met->introduction), body + wire::kJoinReplyBytes);
}

std::optional<ReplyStatus> Sessions::join(const ControlRequest& request, const std::optional<Met>& met, uint8_t* body,
                                          Effects* out) {
  const wire::Join asked = wire::read_join(request.body);
  SessionRecord* session = find({asked.job, asked.epoch});
  if (session == nullptr) return ReplyStatus::kUnknownSession;
  const std::pair<int, int> member{asked.worker, asked.shard};
  const bool here = asked.worker < session->ranks.size() && may_join_here(*session, asked.worker, request);
  softswitch::JoinOutcome answer;
  answer.status = ReplyStatus::kNotMember;
  if (here) answer = table_.join(asked, request.from.endpoint, request.now);
  if (answer.status == ReplyStatus::kProveAddress) {
    wire::write_join_reply(answer.reply, body);
    return answer.status;
  }
  if (answer.status != ReplyStatus::kOk) {
    ++counters_.joins_refused;
    return answer.status;
  }
  if (session->joining.count(member) != 0) return std::nullopt;
  const auto known = session->confirmed.find(member);
  auto pending = request.pending(PendingWork::Cause::kJoin, session->id);
  pending->join = asked;
  pending->met = met;
  const auto pair = pending->pair();
  // [MEET-4]
  if (known != session->confirmed.end() && known->second.place == request.from && known->second.its == pair) {
    write_joined(*session, *pending, body);
    return ReplyStatus::kOk;
  }
  pending->commands.emplace_back(request.at, SetMember{session->id, asked.worker, asked.shard, request.from, pair});
  session->joining.insert(member);
  begin(std::move(pending), out);
  return std::nullopt;
}

void Sessions::joined(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out) {
  SessionRecord* session = find(pending.id);
  if (session == nullptr) return;
  const wire::Join& asked = pending.join;
  session->joining.erase({asked.worker, asked.shard});
  if (!results.empty() && !results.front().ok) {
    SWITCHML_LOG(kWarning) << "job " << int{asked.job} << ": worker " << int{asked.worker} << ", shard " << asked.shard
                           << " cannot join at switch \"" << state(pending.at).name()
                           << "\": " << results.front().problem;
  }
  // Unanswered workers ask again. This one may have left, or moved, meanwhile.
  const bool still = table_.find(asked.job)->member(asked.worker, asked.shard) == pending.from.endpoint;
  if (results.empty() || !results.front().ok || !still) return;
  session->confirmed[{asked.worker, asked.shard}] = {pending.from, pending.pair(), results.front().pair};
  uint8_t reply[wire::kMaxControlBytes] = {};
  write_joined(*session, pending, reply + wire::kControlBytes);
  send(pending.at, reply_to(pending.asked, ReplyStatus::kOk, reply, pending.from), out);
}

// ---- close ----

ReplyStatus Sessions::close(const ControlRequest& request, Effects* out) {
  const wire::Close asked = wire::read_close(request.body);
  const auto closed = table_.close(asked, request.now);
  SessionRecord* session = find({asked.job, asked.epoch});
  if (closed.status != ReplyStatus::kOk || session == nullptr) return closed.status;
  for (int shard = 0; shard < kMaxShards; ++shard) session->confirmed.erase({asked.worker, shard});
  if (closed.last) {
    ++counters_.sessions_closed;
    end(asked.job, {Why::kUnavailable, "the session was closed before its switches were ready"}, out);
  }
  return closed.status;
}

// ---- probe ----

std::optional<ReplyStatus> Sessions::probe(const ControlRequest& request, Effects* out) {
  const wire::Probe asked = wire::read_probe(request.body);
  SessionRecord* session = find({asked.job, asked.epoch});
  if (session == nullptr) return ReplyStatus::kUnknownSession;
  softswitch::SessionEntry& entry = *table_.find(asked.job, asked.epoch);
  if (asked.worker >= entry.workers() || !entry.speaks_for(asked.worker, request.from.endpoint)) {
    return ReplyStatus::kNotMember;  // [PROBE-1]
  }
  if (asked.slot >= entry.slots() || asked.seq == 0) return ReplyStatus::kBadRequest;
  entry.last_heard = request.now;
  if (!session->probing.insert(asked.worker).second) return std::nullopt;
  auto pending = request.pending(PendingWork::Cause::kProbe, session->id);
  pending->probe = asked;
  for (const TreeNode& node : session->tree.nodes) {
    pending->commands.emplace_back(node.at, Contributors{session->id, asked.slot, asked.seq});
  }
  begin(std::move(pending), out);
  return std::nullopt;
}

void Sessions::look_for_silence(const PendingWork& pending, const UseInTree& use, SessionRecord* session) {
  const wire::Probe& asked = pending.probe;
  const auto news =
      session->silent_paths.note(session->tree, use, asked.worker, {asked.slot, asked.seq}, pending.asked_at);
  for (const SilentPath& path : news) {
    ++counters_.silent_paths;
    SWITCHML_LOG(kWarning) << describe(path, topology_, asked.job);
  }
}

// Ranks of a switch that does not answer count as missing. One command per node.
void Sessions::probed(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out) {
  SessionRecord* session = find(pending.id);
  if (session == nullptr) return;
  session->probing.erase(pending.probe.worker);
  UseInTree use(session->tree);
  uint64_t dropped_length = 0;
  for (size_t node = 0; node < results.size() && node < session->tree.nodes.size(); ++node) {
    if (!results[node].ok) continue;
    use.answered(node, results[node].members);
    dropped_length += results[node].dropped_length;  // [PROBE-4]
  }
  look_for_silence(pending, use, session);
  const WorkerSet contributed = use.contributed();
  const WorkerSet joined = session->joined_ranks(table_.find(pending.id.job)->shards());
  wire::ProbeReply reply;
  reply.slot = pending.probe.slot;
  reply.dropped_length = wire::capped(dropped_length);
  reply.seq = pending.probe.seq;
  reply.joined_low = joined.low;
  reply.joined_high = joined.high;
  reply.contributed_low = contributed.low;
  reply.contributed_high = contributed.high;
  uint8_t frame[wire::kMaxControlBytes];
  wire::write_probe_reply(reply, frame + wire::kControlBytes);
  send(pending.at, reply_to(pending.asked, ReplyStatus::kOk, frame, pending.from), out);
}

}  // namespace switchml::controller
