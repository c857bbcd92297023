#include "engine/switch_liveness.h"

#include <sstream>
#include <utility>

namespace switchml {

namespace {

constexpr Duration kProbeInterval = seconds(1);
constexpr int kProbesInVain = 4;                          // A silent switch is given up after so many, at least.
constexpr Duration kProbeFreshness = milliseconds(2500);  // an older answer says nothing about the present
constexpr Duration kRefusalPatience = seconds(2);
constexpr Duration kSocketErrorInterval = milliseconds(5);
constexpr Duration kMeetingInterval = milliseconds(200);

bool is_in(int worker, uint64_t low, uint64_t high) { return ((worker < 64 ? low : high) >> (worker % 64) & 1) != 0; }
bool has_joined(const wire::ProbeReply& answer, int worker) {
  return is_in(worker, answer.joined_low, answer.joined_high);
}
bool has_contributed(const wire::ProbeReply& answer, int worker) {
  return is_in(worker, answer.contributed_low, answer.contributed_high);
}

}  // namespace

SwitchLiveness::SwitchLiveness(const SessionParameters& session, int shard, Duration patience, bool can_move, Time now)
    : session_(session),
      shard_(shard),
      patience_(patience),
      can_move_(can_move),
      next_keep_alive_(now + session.renewal()),
      next_request_(static_cast<uint32_t>(session.secret[0] >> 32) ^ static_cast<uint32_t>(session.secret[1])) {}

SwitchLiveness::Consequence SwitchLiveness::on_reply(const wire::Reply& reply, Time now) {
  Consequence out;
  const bool joins = reply.type == wire::Request::kJoin || reply.type == wire::Request::kMeet;
  if (joins && reply.request_id == join_request_) {
    unanswered_ = 0;
    const bool was_doubted = std::exchange(doubted_, reply.status == wire::ReplyStatus::kBadVersion);
    if (reply.type == wire::Request::kMeet && reply.status == wire::ReplyStatus::kOk) {
      out.introduction = reply.introduction;
      if (session_.switch_endpoint.carrier != Carrier::kPlaces) introduction_.reset();
    }
    if (reply.status == wire::ReplyStatus::kProveAddress) {
      // The first one of a session, or the switch sees another address. Once for each keep-alive.
      cookie_ = reply.join.cookie;  // [COOKIE-3]
      if (!std::exchange(proven_, true)) out.request = join();
    } else if (reply.status == wire::ReplyStatus::kNoCard) {
      on_no_pair(wire::to_string(reply.status), now);
    } else if (doubted_ && !was_doubted) {
      out.request = join();  // Damage may be the reason: there is no checksum. [CTL-9]
    } else if (reply.status != wire::ReplyStatus::kOk) {
      out.lost = lost(reply.status);
    }
  }
  if (reply.type == wire::Request::kProbe && reply.request_id == probe_request_ && asked_.seq != 0) {
    unanswered_ = 0;
    if (reply.status == wire::ReplyStatus::kOk) out.cannot_complete = on_probe_reply(reply, now);
    if (reply.status == wire::ReplyStatus::kUnknownSession) out.lost = lost(reply.status);
    if (reply.status == wire::ReplyStatus::kNotMember)
      out.request = keep_alive(now);  // It comes from another address now.
  }
  return out;
}

// A worker that has left contributes no more. Two answers, because its last packets may have been overtaken.
bool SwitchLiveness::on_probe_reply(const wire::Reply& reply, Time now) {
  answered_at_ = now;
  answer_ = reply.probe;
  bool left = false;
  for (int worker = 0; worker < session_.workers; ++worker) {
    left = left || !(has_joined(answer_, worker) || has_contributed(answer_, worker));
  }
  if (left && left_request_ != reply.request_id) ++left_answers_;
  if (!left) left_answers_ = 0;
  left_request_ = reply.request_id;
  return left_answers_ >= 2;
}

void SwitchLiveness::restart(Time now) {
  on_received();
  on_result();
  on_accepted(false, now);
  left_answers_ = 0;
  vain_meetings_ = 0;
  next_keep_alive_ = now + session_.renewal();
  introduction_.reset();
}

void SwitchLiveness::on_socket_error(const std::string& error, bool refused, Time now) {
  next_socket_error_ = now + kSocketErrorInterval;
  if (error.empty()) return;
  socket_error_ = error;
  if (refused && refused_since_ == kNever) refused_since_ = now;
}

bool SwitchLiveness::is_fresh(Time now) const {
  return answered_at_ != kNever && now - answered_at_ <= kProbeFreshness;
}

Duration SwitchLiveness::probe_interval() const {
  return std::min<Duration>(kProbeInterval, patience_ / kProbesInVain);
}

// A card has no address while its link is down, and gets it back.
void SwitchLiveness::on_no_pair(const std::string& why, Time now) {
  next_meeting_ = now + kMeetingInterval;
  no_pair_ = why;
  ++vain_meetings_;
}

// Questions are counted, not time: a process that was stopped has asked none meanwhile.
Status SwitchLiveness::verdict(Time now) const {
  if (refused_since_ != kNever && now - refused_since_ >= kRefusalPatience) {
    return Status(Code::kUnavailable, "the switch " + session_.switch_name + " is gone: " + socket_error_);
  }
  if (vain_meetings_ > patience_ / kMeetingInterval) {
    return Status(Code::kUnavailable,
                  "no queue pair with the switch " + session_.switch_name + " can be had: " + no_pair_);
  }
  if (now < next_probe_ || unanswered_ < patience_ / probe_interval()) return {};
  if (session_.controlled && !can_move_) return {};
  return Status(Code::kUnavailable, missing_text(now));
}

bool SwitchLiveness::waits_for_others() const {
  return answered_at_ != kNever && has_contributed(answer_, session_.worker) && !missing_ranks().empty();
}

bool SwitchLiveness::is_slow(Duration bound, Time now) const {
  if (stuck_since_ == kNever || now - stuck_since_ < bound) return false;
  return is_fresh(now) || unanswered_ > 1;
}

SwitchLiveness::Request SwitchLiveness::probe(const Use& use, Time now) {
  if (!(use == asked_)) left_answers_ = 0;
  asked_ = use;
  next_probe_ = now + probe_interval();
  ++unanswered_;
  probe_request_ = next_request_++;
  Request out;
  out.size = wire::build_probe(session_.membership(), use.slot, use.seq, probe_request_, out.bytes.data());
  return out;
}

SwitchLiveness::Request SwitchLiveness::keep_alive(Time now) {
  next_keep_alive_ = now + session_.renewal();  // [LEASE-5]
  next_meeting_ = now + kMeetingInterval;
  proven_ = false;
  return join();
}

SwitchLiveness::Request SwitchLiveness::join() {
  join_request_ = next_request_++;
  wire::Membership member = session_.membership();
  member.cookie = cookie_;  // [COOKIE-3]
  Request out;
  out.size = introduction_ ? wire::build_meet(member, shard_, *introduction_, join_request_, out.bytes.data())
                           : wire::build_join(member, shard_, join_request_, out.bytes.data());
  return out;
}

Status SwitchLiveness::lost(wire::ReplyStatus status) const {
  if (status != wire::ReplyStatus::kUnknownSession) {
    return Status(Code::kUnavailable, "the switch " + session_.switch_name + " does not take this rank back (" +
                                          wire::to_string(status) + ")");
  }
  return Status(Code::kUnavailable, "the switch " + session_.switch_name + " no longer knows this session (" +
                                        wire::to_string(status) +
                                        "): it was restarted, its lease ran out, or others needed its room while "
                                        "nothing was heard from the group");
}

std::string SwitchLiveness::missing_ranks() const {
  std::string missing;
  for (int worker = 0; worker < session_.workers; ++worker) {
    if (has_contributed(answer_, worker)) continue;
    missing += (missing.empty() ? "" : ", ") + session_.name_of(worker);
    if (!has_joined(answer_, worker)) missing += " (left the session)";
  }
  return missing;
}

std::string SwitchLiveness::missing_text(Time now) const {
  std::ostringstream text;
  const double silent = stuck_since_ == kNever ? 0.0 : to_seconds(now - stuck_since_);
  if (!is_fresh(now)) {
    text << "the switch " << session_.switch_name << " has not answered for " << silent << " s";
    if (!socket_error_.empty()) text << " (" << socket_error_ << ")";
    return text.str();
  }
  const std::string missing = missing_ranks();
  if (missing.empty()) {
    text << "the switch " << session_.switch_name << " has every contribution, but its result does not arrive";
  } else {
    text << "no contribution from rank " << missing << " for " << silent
         << " s: is that rank dead, stopped, or did it not call this collective?";
  }
  if (answer_.dropped_length > 0) {
    text << " (dropped_length of the switch is " << answer_.dropped_length
         << (answer_.dropped_length == UINT16_MAX ? " or more" : "")
         << ": a host sends bursts as one packet, or other payloads?)";
  }
  return text.str();
}

}  // namespace switchml
