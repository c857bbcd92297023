#include "slot_watch.h"

#include <algorithm>

namespace switchml::sim {

bool SlotWatch::Session::is_member(int worker, int shard, int node) const {
  const auto found = nodes.find({worker, shard});
  return found != nodes.end() && found->second == node;
}

void SlotWatch::Use::say(const SlotFrame& contribution) {
  if (heard.count() == 0) {
    call = contribution.call;
    kind = contribution.kind;
    bytes = 0;
    disagree = false;
    want_none = WorkerSet{};
  }
  if ((contribution.flags & wire::kFlagNoElements) != 0) want_none.insert(contribution.worker);
  disagree |= contribution.call != call || contribution.kind != kind;
  disagree |= (contribution.flags & wire::kFlagDisagree) != 0;  // [ETREE-3]
  disagree |= bytes != 0 && contribution.bytes != 0 && contribution.bytes != bytes;
  bytes = std::max(bytes, contribution.bytes);
}

void SlotWatch::add_session(uint8_t job, uint32_t epoch, int shards, int slots, const WorkerSet& members, int parent,
                            bool exact) {
  for (auto& [id, other] : sessions_) {
    if (id.first == job && id.second != epoch) other.live = false;
  }
  Session& session = sessions_[{job, epoch}];
  if (session.live && !session.uses.empty()) return;  // the answer to a repeated open
  session = {};
  session.slots_per_shard = slots / shards;
  session.parent = parent;
  session.exact = exact;
  session.members = members;
  session.uses.resize(static_cast<size_t>(slots) * 2);
}

void SlotWatch::set_member(uint8_t job, uint32_t epoch, int worker, int shard, int node) {
  const auto found = sessions_.find({job, epoch});
  if (found == sessions_.end()) return;
  for (int s = shard < 0 ? 0 : shard; s < (shard < 0 ? kMostShards : shard + 1); ++s)
    found->second.nodes[{worker, s}] = node;
}

void SlotWatch::prune() {
  for (auto& [id, session] : sessions_)
    session.live = session.live && switch_->contributed(id.first, id.second, 0, 1).ok();
}

SlotWatch::Session* SlotWatch::find(const SlotFrame& frame) {
  const auto found = sessions_.find({frame.job, frame.epoch});
  return found == sessions_.end() ? nullptr : &found->second;
}

void SlotWatch::before(int from, const uint8_t* frame, size_t size, bool damaged) {
  from_ = from;
  use_ = nullptr;
  announced_now_ = false;
  packet_ = slot_frame(frame, size);
  if (!packet_ || packet_->result) return;
  Session* session = find(*packet_);
  if (session != nullptr && session->live) {
    if (packet_->exact == session->exact && !(damaged && session->exact)) hear(session);
  } else if (session != nullptr) {
    record_->count(Fault::old_session);
  }
}

void SlotWatch::hear(Session* session) {
  const SlotFrame& h = *packet_;
  if (size_t{h.slot} * 2 >= session->uses.size() || h.worker >= kMaxWorkers || !session->members.test(h.worker)) return;
  if (!session->is_member(h.worker, h.slot / session->slots_per_shard, from_)) return;
  Use& use = session->uses[size_t{h.slot} * 2 + (h.seq & 1U)];
  const auto ahead = static_cast<int32_t>(h.seq - use.seq);
  if (use.seq != 0 && ahead < 0) {
    if (ahead <= -4) record_->count(Fault::several_uses_late);
    return;
  }
  if (use.seq != h.seq) {
    use = {};
    use.seq = h.seq;
  }
  if (!use.heard.test(h.worker)) use.say(h);
  use.heard.insert(h.worker);
  use_ = &use;
}

void SlotWatch::output(const uint8_t* frame, size_t size, int to, bool multicast) {
  if (wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kReply)) return;
  const auto out = slot_frame(frame, size);
  if (!out) return broken("a switch sends a malformed packet");
  Session* session = find(*out);
  if (session == nullptr || !session->live) return broken("a switch answers for a session that is over");
  judge_output(session, *out, to, multicast);
}

void SlotWatch::judge_output(Session* session, const SlotFrame& out, int to, bool multicast) {
  const bool same_use = packet_ && packet_->slot == out.slot && packet_->seq == out.seq && packet_->job == out.job &&
                        packet_->epoch == out.epoch && packet_->exact == out.exact;
  if (!same_use) return broken("a packet makes the switch answer for another use");
  const bool result = out.result;
  if (session->parent >= 0 && result) {  // passed down
    if (!packet_->result || from_ != session->parent)
      return broken("a leaf sends its members what its parent has not sent");
    if (!session->exact) return judge_receiver(*session, out, to);
    // It knows which members want no elements. [ETREE-5]
    use_ = &session->uses[size_t{out.slot} * 2 + (out.seq & 1U)];
    if (use_->seq != out.seq || !(use_->heard == session->members))
      return broken("a leaf sends its members the result of a use that it does not hold");
  } else {
    if (use_ == nullptr) return broken("a switch answers somebody who is not a member, or an old use");
    if (!(use_->heard == session->members)) return broken("a switch answers before all members have contributed");
    if (result != (session->parent < 0)) return broken("a switch without a parent sends a contribution");
    if (multicast && use_->announced && !announced_now_) return broken("a use is announced to all a second time");
    if (multicast) use_->announced = announced_now_ = true;
    if (!multicast && result && to != from_) return broken("a duplicate's answer goes to somebody else");
  }
  judge_receiver(*session, out, to);
  if (!session->exact) return;
  const std::string wrong = rule_of_elements(*session, *use_, out, to);
  if (!wrong.empty()) broken(wrong);
}

void SlotWatch::judge_receiver(const Session& session, const SlotFrame& out, int to) {
  const std::string wrong = rule_of_result(session, out, to);
  if (!wrong.empty()) broken(wrong);
}

// Who may get it.
std::string SlotWatch::rule_of_result(const Session& session, const SlotFrame& out, int to) {
  if (!out.result) {
    return to == session.parent ? "" : "an aggregate does not go to the parent";
  }
  for (const auto& [member, node] : session.nodes) {
    if (node == to && member.second == out.slot / session.slots_per_shard) return {};
  }
  return "a result goes to somebody who is no member of the shard";
}

bool SlotWatch::wants_none(const Session& session, const Use& use, const SlotFrame& out, int to) {
  return std::any_of(session.nodes.begin(), session.nodes.end(), [&](const auto& entry) {
    const auto& [member, node] = entry;
    return node == to && member.second == out.slot / session.slots_per_shard &&
           use.want_none.test(static_cast<uint8_t>(member.first));
  });
}

std::string SlotWatch::rule_of_elements(const Session& session, const Use& use, const SlotFrame& out, int to) {
  const bool is_handed_down = session.parent >= 0 && out.result;
  const bool says = (out.flags & wire::kFlagDisagree) != 0;
  if (is_handed_down) {
    if (out.call != packet_->call || out.kind != packet_->kind) return "a leaf alters the result of its parent";
  } else {
    if (out.call != use.call || out.kind != use.kind) return "an exact result is not of the first contribution's call";
    if (says != use.disagree) return "an exact result does not say whether its contributions agree";
  }
  if (wants_none(session, use, out, to)) {
    record_->count(Fault::results_unwanted);
    return out.bytes == 0 ? "" : "an exact result has elements for who wants none";
  }
  const size_t bytes = is_handed_down ? packet_->bytes : use.bytes;
  if (out.bytes != (says ? 0 : bytes)) return "an exact result has other elements than its contributions";
  return {};
}

void SlotWatch::after() {
  if (!packet_ || packet_->result) return;
  Session* session = find(*packet_);
  if (session == nullptr || !session->live) return;
  const SlotFrame& h = *packet_;
  if (size_t{h.slot} * 2 >= session->uses.size()) return;
  const Use& use = session->uses[size_t{h.slot} * 2 + (h.seq & 1U)];
  if (use.seq == 0) return;
  const auto told = switch_->contributed(h.job, h.epoch, h.slot, use.seq);
  if (!told.ok()) return broken("a live session is unknown: " + told.status().message());
  if (!(told.value() == use.heard)) {
    broken("the bitmap of slot " + std::to_string(h.slot) + ", use " + std::to_string(use.seq) +
           " does not hold just those who have contributed to it");
  }
}

}  // namespace switchml::sim
