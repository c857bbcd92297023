#include "tree_controller.h"

#include <algorithm>

namespace switchml::sim {

using softswitch::InstalledSession;
using wire::ReplyStatus;
using wire::Request;

TreeController::TreeController(std::vector<SwitchNode*> switches, const softswitch::SessionLimits& limits,
                               Record* record)
    : switches_(std::move(switches)), taps_(switches_.size()), table_(limits), record_(record) {
  for (size_t i = 0; i < taps_.size(); ++i) {
    taps_[i].controller = this;
    taps_[i].at = static_cast<int>(i);
    switches_[i]->hand_requests_to(&taps_[i]);
  }
}

TreeController::~TreeController() = default;

void TreeController::request(int at, const uint8_t* frame, size_t size, int from) {
  const Charge charge(kSimulator);
  wire::ControlPacket packet;
  if (wire::parse_control(frame, size, wire::Kind::kRequest, &packet) != wire::ParseError::kNone) return;
  if (packet.body_bytes == 0 || packet.body_bytes != wire::request_body_bytes(packet.control.type)) return;
  if (!is_worker(from)) return;
  uint8_t reply[wire::kMaxControlBytes] = {};
  const ReplyStatus status = answer(at, packet, from, reply + wire::kControlBytes);
  switches_[static_cast<size_t>(at)]->send_control(reply, wire::finish_reply(packet.control, status, reply), from);
}

ReplyStatus TreeController::answer(int at, const wire::ControlPacket& packet, int from, uint8_t* body) {
  switch (static_cast<Request>(packet.control.type)) {
    case Request::kOpen: return open(wire::read_open(packet.body), from, body);
    case Request::kJoin: return join(at, wire::read_join(packet.body), from, body);
    case Request::kClose: return close(wire::read_close(packet.body));
    case Request::kProbe: return probe(wire::read_probe(packet.body), from, body);
    case Request::kMeet: break;  // nobody comes by RDMA
  }
  return ReplyStatus::kBadRequest;
}

ReplyStatus TreeController::open(const wire::Open& asked, int from, uint8_t* body) {
  const auto opened = table_.open(asked, record_->now());
  if (opened.status != ReplyStatus::kOk) return opened.status;
  if (opened.fresh != nullptr && !install(opened.reply, asked.shards, tenant_of(from))) {
    end(opened.reply.job);
    return ReplyStatus::kNoSlots;
  }
  wire::OpenReply reply = opened.reply;
  const Attachment& attachment = attachments_.at(tenant_of(from));
  const bool is_tree = std::any_of(attachment.begin(), attachment.end(), [](int at) { return at != 0; });
  const bool exact = (reply.flags & wire::kOpenExact) != 0;
  if (exact && is_tree) reply.flags |= wire::kOpenTree;  // [ETREE-1]
  wire::write_open_reply(reply, body);
  return ReplyStatus::kOk;
}

bool TreeController::install(const wire::OpenReply& granted, int shards, int tenant) {
  const Attachment& attachment = attachments_.at(tenant);
  sessions_[granted.job] = {granted.epoch, tenant};
  InstalledSession session;
  session.job = granted.job;
  session.epoch = granted.epoch;
  session.shards = shards;
  session.slots = granted.slots;
  session.payload_bytes = granted.payload;
  session.exact = (granted.flags & wire::kOpenExact) != 0;
  session.session_key = session.exact ? granted.session_key : 0;
  std::vector<InstalledSession> parts(switches_.size(), session);
  for (int worker = static_cast<int>(attachment.size()) - 1; worker >= 0; --worker) {
    const auto at = static_cast<size_t>(attachment[static_cast<size_t>(worker)]);
    parts[at].members.insert(worker);
    if (at != 0) parts[at].uplink = softswitch::Uplink{static_cast<uint8_t>(worker), endpoint_of(0)};
  }
  for (size_t at = 1; at < parts.size(); ++at) {
    if (parts[at].uplink) parts[0].members.insert(parts[at].uplink->worker);
  }
  for (size_t at = 0; at < parts.size(); ++at) {
    if (parts[at].members.count() == 0) continue;
    if (!switches_[at]->install(parts[at], at == 0 ? -1 : 0).ok()) return false;
    if (at != 0)
      switches_[0]->set_member(granted.job, granted.epoch, parts[at].uplink->worker, -1, static_cast<int>(at));
  }
  return true;
}

ReplyStatus TreeController::join(int at, const wire::Join& asked, int from, uint8_t* body) {
  const auto joined = table_.join(asked, endpoint_of(from), record_->now());
  if (wire::has_body(joined.status)) wire::write_join_reply(joined.reply, body);
  if (joined.status != ReplyStatus::kOk) return joined.status;
  switches_[static_cast<size_t>(at)]->set_member(asked.job, asked.epoch, asked.worker, asked.shard, from);
  return ReplyStatus::kOk;
}

ReplyStatus TreeController::close(const wire::Close& asked) {
  const auto closed = table_.close(asked, record_->now());
  if (closed.last) end(asked.job);
  return closed.status;
}

ReplyStatus TreeController::probe(const wire::Probe& asked, int from, uint8_t* body) {
  auto* entry = table_.find(asked.job, asked.epoch);
  if (entry == nullptr) return ReplyStatus::kUnknownSession;
  if (asked.worker >= entry->workers() || !entry->speaks_for(asked.worker, endpoint_of(from)))
    return ReplyStatus::kNotMember;
  if (asked.slot >= entry->slots() || asked.seq == 0) return ReplyStatus::kBadRequest;
  entry->last_heard = record_->now();
  const Attachment& attachment = attachments_.at(sessions_.at(asked.job).tenant);
  WorkerSet contributed;
  for (int worker = 0; worker < entry->workers(); ++worker) {
    const auto at = static_cast<size_t>(attachment[static_cast<size_t>(worker)]);
    if (switches_[at]->contributed(asked.job, asked.epoch, asked.slot, asked.seq).test(worker))
      contributed.insert(worker);
  }
  wire::ProbeReply reply;
  reply.slot = asked.slot;
  reply.seq = asked.seq;
  reply.joined_low = entry->joined_workers().low;
  reply.contributed_low = contributed.low;
  wire::write_probe_reply(reply, body);
  return ReplyStatus::kOk;
}

void TreeController::end(uint8_t job) {
  const auto found = sessions_.find(job);
  if (found == sessions_.end()) return;
  for (SwitchNode* node : switches_) node->remove(job, found->second.epoch);
  table_.end(job);
  sessions_.erase(found);
}

void TreeController::sweep() {
  for (const uint8_t job : table_.expired(record_->now())) {
    record_->count(Fault::leases_expired);
    end(job);
  }
}

void TreeController::restarted(int at) {
  std::vector<uint8_t> lost;
  for (const auto& [job, session] : sessions_) {
    const Attachment& attachment = attachments_.at(session.tenant);
    if (at == 0 || std::count(attachment.begin(), attachment.end(), at) > 0) lost.push_back(job);
  }
  for (const uint8_t job : lost) end(job);
}

void TreeController::check_empty() {
  if (!sessions_.empty()) record_->broken(Rule::kMemory, "all jobs are over, but the controller still has sessions");
}

}  // namespace switchml::sim
