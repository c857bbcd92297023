#include "client/control_client.h"

#include <algorithm>

#include "base/interruption.h"
#include "base/limits.h"
#include "base/random.h"
#include "client/switch_address.h"

namespace switchml {

namespace {

constexpr Duration kFirstPatience = milliseconds(50);
constexpr Duration kMostPatience = seconds(1);
constexpr int kMostProofs = 8;  // An address may change while a worker joins, but not each time.

}  // namespace

ControlClient::ControlClient(Transport& transport, const Endpoint& switch_endpoint, std::string name)
    : transport_(transport),
      switch_(switch_endpoint),
      name_(std::move(name)),
      request_id_(static_cast<uint32_t>(random_bits())) {}

Result<wire::OpenReply> ControlClient::open(const wire::Open& asked, Time deadline) {
  const auto build = [&](uint32_t id, uint8_t* out) { return wire::build_open(asked, id, out); };
  auto reply = exchange(wire::Request::kOpen, build, deadline);
  using wire::ReplyStatus;
  const ReplyStatus status = reply.ok() ? reply->status : ReplyStatus::kOk;
  lacked_room_ = status == ReplyStatus::kNoSlots || status == ReplyStatus::kNoJobs || status == ReplyStatus::kQuota;
  if (!reply.ok()) return reply.status();
  if (status != ReplyStatus::kOk) return refusal(reply.value());
  return reply->open;
}

Result<wire::JoinReply> ControlClient::join(const wire::Membership& member, int shard, Time deadline) {
  wire::Membership shown = member;
  for (int proofs = 0;; ++proofs) {
    auto reply = uses_card(switch_.carrier) ? ask_to_meet(shown, shard, deadline) : ask_to_join(shown, shard, deadline);
    if (!reply.ok()) return reply.status();
    if (reply->status == wire::ReplyStatus::kOk) return reply->join;
    if (reply->status != wire::ReplyStatus::kProveAddress || proofs == kMostProofs) return refusal(reply.value());
    shown.cookie = reply->join.cookie;  // [COOKIE-2]
  }
}

Result<wire::Reply> ControlClient::ask_to_join(const wire::Membership& member, int shard, Time deadline) {
  const auto build = [&](uint32_t id, uint8_t* out) { return wire::build_join(member, shard, id, out); };
  return exchange(wire::Request::kJoin, build, deadline);
}

// A join that connects queue pairs: each end gets the other's introduction.
Result<wire::Reply> ControlClient::ask_to_meet(const wire::Membership& member, int shard, Time deadline) {
  const auto own = transport_.queue_pairs()->queue_pair_for(switch_);
  if (!own.ok()) return own.status();
  const auto build = [&](uint32_t id, uint8_t* out) { return wire::build_meet(member, shard, own.value(), id, out); };
  auto reply = exchange(wire::Request::kMeet, build, deadline);
  if (!reply.ok() || reply->status != wire::ReplyStatus::kOk) return reply;
  const Status met = transport_.queue_pairs()->connect(switch_, reply->introduction);
  return met.ok() ? reply : met;
}

Status ControlClient::close(const wire::Membership& member, Time deadline) {
  const auto build = [&](uint32_t id, uint8_t* out) { return wire::build_close(member, id, out); };
  auto reply = exchange(wire::Request::kClose, build, deadline);
  if (!reply.ok()) return reply.status();
  const bool over = reply->status == wire::ReplyStatus::kOk || reply->status == wire::ReplyStatus::kUnknownSession;
  return over ? Status{} : refusal(reply.value());
}

// A reply of another version has no checksum: a single one may be damaged, so the request is repeated. [CTL-9]
Result<wire::Reply> ControlClient::exchange(wire::Request type, const Build& build, Time deadline) {
  auto reply = ask(type, build, deadline);
  const bool is_other = reply.ok() && reply->status == wire::ReplyStatus::kBadVersion;
  return is_other ? ask(type, build, deadline) : reply;
}

Result<wire::Reply> ControlClient::ask(wire::Request type, const Build& build, Time deadline) {
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = build(++request_id_, frame);
  Duration patience = kFirstPatience;
  const bool leaves = type == wire::Request::kClose;  // A close is short, and must not be interrupted.
  Time now = monotonic_now();
  do {
    const TxFrame tx{frame, static_cast<uint32_t>(size), &switch_};
    transport_.send(&tx, 1);  // [CTL-5]
    if (!leaves) check_interruption();
    const Time repeat = std::min(now + patience, deadline);
    while (now < repeat) {
      wire::Reply reply;
      if (receive_reply(type, &reply)) return reply;
      transport_.wait(repeat - now);
      now = monotonic_now();
    }
    // A closed port is no reason to give up before the deadline: the switch may be about to start.
    if (std::string error = transport_.take_error(); !error.empty()) socket_error_ = std::move(error);
    if (Status status = ended_ ? ended_() : Status(); !status.ok()) return status;
    patience = std::min(2 * patience, kMostPatience);
  } while (now < deadline);
  wire::Reply reply;
  if (receive_reply(type, &reply)) return reply;
  return no_answer();
}

// True when the reply to the current request has arrived.
bool ControlClient::receive_reply(wire::Request type, wire::Reply* reply) {
  bool found = false;
  RxFrame frames[kBurst];
  while (!found) {
    const size_t count = transport_.receive(frames, kBurst);
    for (size_t i = 0; i < count && !found; ++i) {
      found = wire::parse_reply(frames[i].data, frames[i].size, reply) == wire::ParseError::kNone &&
              reply->type == type && reply->request_id == request_id_;
    }
    transport_.release();
    if (count == 0) break;
  }
  return found;
}

Status ControlClient::no_answer() const {
  const std::string carrier = switch_.carrier == Carrier::kTcp ? "TCP" : "UDP";
  const std::string question = is_embedded(name_) ? "does " + carrier +
                                                        " pass between the hosts, and do they reach that address "
                                                        "(SWITCHML_INTERFACE names another one)?"
                               : switch_.carrier == Carrier::kPlaces
                                   ? "is it the end of queue pairs, and is " + carrier + " let through?"
                                   : "is switchml-switchd running there, is " + carrier +
                                         " let through, and is its --key-file, if it has one, that of "
                                         "SWITCHML_SWITCH_KEY_FILE?";
  return {Code::kUnavailable, "switch " + name_ + " does not answer" +
                                  (socket_error_.empty() ? std::string() : " (" + socket_error_ + ")") + ": " +
                                  question};
}

Status ControlClient::refusal(const wire::Reply& reply) const {
  using wire::ReplyStatus;
  const std::string who = "switch " + name_ + " ";
  switch (reply.status) {
    case ReplyStatus::kBadVersion:
      return {Code::kMismatch, who + "speaks protocol version " + std::to_string(reply.version) +
                                   ", this worker speaks version " + std::to_string(wire::kVersion) +
                                   ": install the same switchml on both"};
    case ReplyStatus::kNoSlots:
      return {Code::kUnavailable, who + "has no slot memory left: end another job, set SWITCHML_PAYLOAD or " +
                                      "SWITCHML_SHARDS lower, or start it with a larger --slots"};
    case ReplyStatus::kNoJobs:
      return {Code::kUnavailable, who + "has no job number left: it serves " + std::to_string(kMaxJobs) +
                                      " groups at most; end one or start another switch"};
    case ReplyStatus::kQuota:
      return {Code::kUnavailable, who +
                                      "gives this host no more: it has as many jobs (--client-jobs there) or as much " +
                                      "slot memory (--client-slots) as one may have; end another job of this host"};
    case ReplyStatus::kTooManyWorkers:
      return {Code::kInvalidArgument,
              who + "does not take so many workers (ranks, or hosts of several ranks): a switch has up to " +
                  std::to_string(kMaxWorkers) + ", a chip 64; use a smaller group"};
    case ReplyStatus::kPayloadUnsupported:
      return {Code::kInvalidArgument,
              who + "does not take this payload size: set SWITCHML_PAYLOAD higher (256 at least)"};
    case ReplyStatus::kUnknownSession:
      return {Code::kUnavailable,
              who + "does not know this job (any more): it was restarted, or the job's lease ran out"};
    case ReplyStatus::kProveAddress:
      return {Code::kUnavailable, who + "sees this host come from another address each time it asks: is there a " +
                                      "translation of addresses (NAT) between them?"};
    case ReplyStatus::kNotInvited:
      return {Code::kInvalidArgument, who + "serves another group, in whose rank 0 it runs: name a switchml-switchd"};
    case ReplyStatus::kNoCard:
      return {Code::kUnavailable, who +
                                      "has no card for RDMA, or one that gives no queue pair: see its log, or set "
                                      "SWITCHML_TRANSPORT to udp or tcp"};
    case ReplyStatus::kControlled:
      return {Code::kInvalidArgument,
              who + "is run by a controller: set SWITCHML_CONTROLLER to that one's address, and no SWITCHML_SWITCH"};
    default:
      return {Code::kUnavailable, who + "refused to " + to_string(reply.type) + " (" + to_string(reply.status) + ")"};
  }
}

}  // namespace switchml
