#include "slot_watch.h"

namespace switchml::sim {

using softswitch::WorkerSet;

bool SlotWatch::Session::is_member(int worker, int shard, int node) const {
  const auto found = nodes.find({worker, shard});
  return found != nodes.end() && found->second == node;
}

void SlotWatch::add_session(uint8_t job, uint32_t epoch, int shards, int slots, const WorkerSet& members, int parent) {
  for (auto& [id, other] : sessions_) {
    if (id.first == job && id.second != epoch) other.live = false;
  }
  Session& session = sessions_[{job, epoch}];
  if (session.live && !session.uses.empty()) return;  // the answer to a repeated open
  session = {};
  session.slots_per_shard = slots / shards;
  session.parent = parent;
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

SlotWatch::Session* SlotWatch::find(const wire::Header& header) {
  const auto found = sessions_.find({header.job, header.epoch});
  return found == sessions_.end() ? nullptr : &found->second;
}

void SlotWatch::before(int from, const uint8_t* frame, size_t size) {
  from_ = from;
  use_ = nullptr;
  announced_now_ = false;
  is_data_ = wire::parse_data(frame, size, wire::Kind::kContribution, &packet_) == wire::ParseError::kNone;
  is_result_ = !is_data_ && wire::parse_data(frame, size, wire::Kind::kResult, &packet_) == wire::ParseError::kNone;
  if (!is_data_) return;
  Session* session = find(packet_.header);
  if (session != nullptr && session->live) {
    hear(session);
  } else if (session != nullptr) {
    record_->count(Fault::old_session);
  }
}

void SlotWatch::hear(Session* session) {
  const wire::Header& h = packet_.header;
  if (size_t{h.slot} * 2 >= session->uses.size() || h.worker >= kMaxWorkers || !session->members.test(h.worker)) return;
  if (!session->is_member(h.worker, h.slot / session->slots_per_shard, from_)) return;
  Use& use = session->uses[size_t{h.slot} * 2 + (h.seq & 1U)];
  const auto ahead = static_cast<int32_t>(h.seq - use.seq);
  if (use.seq != 0 && ahead < 0) {
    if (ahead <= -4) record_->count(Fault::several_uses_late);
    return;
  }
  if (use.seq != h.seq) use = {h.seq, {}, false};
  use.heard.insert(h.worker);
  use_ = &use;
}

void SlotWatch::output(const uint8_t* frame, size_t size, int to, bool multicast) {
  if (wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kReply)) return;
  wire::DataPacket out;
  const bool result = wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kResult);
  if (wire::parse_data(frame, size, result ? wire::Kind::kResult : wire::Kind::kContribution, &out) !=
      wire::ParseError::kNone) {
    return broken("a switch sends a malformed packet");
  }
  Session* session = find(out.header);
  if (session == nullptr || !session->live) return broken("a switch answers for a session that is over");
  judge_output(session, out, to, multicast);
}

void SlotWatch::judge_output(Session* session, const wire::DataPacket& out, int to, bool multicast) {
  const wire::Header& h = out.header;
  const bool same_use = packet_.header.slot == h.slot && packet_.header.seq == h.seq && packet_.header.job == h.job &&
                        packet_.header.epoch == h.epoch;
  if (!same_use) return broken("a packet makes the switch answer for another use");
  const bool result = h.kind == static_cast<uint8_t>(wire::Kind::kResult);
  if (session->parent >= 0 && result) {  // passed down
    if (!is_result_ || from_ != session->parent) return broken("a leaf sends its members what its parent has not sent");
  } else {
    if (use_ == nullptr) return broken("a switch answers somebody who is not a member, or an old use");
    if (!(use_->heard == session->members)) return broken("a switch answers before all members have contributed");
    if (result != (session->parent < 0)) return broken("a switch without a parent sends a contribution");
    if (multicast && use_->announced && !announced_now_) return broken("a use is announced to all a second time");
    if (multicast) use_->announced = announced_now_ = true;
    if (!multicast && result && to != from_) return broken("a duplicate's answer goes to somebody else");
  }
  const std::string wrong = rule_of_result(*session, out, to);
  if (!wrong.empty()) broken(wrong);
}

// Who may get it.
std::string SlotWatch::rule_of_result(const Session& session, const wire::DataPacket& out, int to) const {
  if (out.header.kind != static_cast<uint8_t>(wire::Kind::kResult)) {
    return to == session.parent ? "" : "an aggregate does not go to the parent";
  }
  for (const auto& [member, node] : session.nodes) {
    if (node == to && member.second == out.header.slot / session.slots_per_shard) return {};
  }
  return "a result goes to somebody who is no member of the shard";
}

void SlotWatch::after() {
  if (!is_data_) return;
  Session* session = find(packet_.header);
  if (session == nullptr || !session->live) return;
  const wire::Header& h = packet_.header;
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
