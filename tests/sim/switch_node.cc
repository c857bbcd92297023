#include "switch_node.h"

#include "wire/control.h"

namespace switchml::sim {

using softswitch::InstalledSession;

namespace {
// What a switch may hold for a session beside its slots: its members' addresses, of 8 workers with 3 shards at most.
constexpr Heap kMostPerSession{2048, 12};

bool is_open(const uint8_t* frame, size_t size) {
  wire::ControlPacket packet;
  return wire::parse_control(frame, size, wire::Kind::kRequest, &packet) == wire::ParseError::kNone &&
         packet.control.type == static_cast<uint8_t>(wire::Request::kOpen);
}
}  // namespace

SwitchNode::SwitchNode(int node, const softswitch::SwitchOptions& options, Carrier* carrier, Record* record)
    : node_(node), options_(options), carrier_(carrier), record_(record) {
  start(options.seed);
}

SwitchNode::~SwitchNode() { kill(); }

void SwitchNode::start(uint64_t seed) {
  options_.seed = seed;
  {
    const Charge charge(node_);
    switch_ = std::make_unique<softswitch::SoftSwitch>(options_);
  }
  empty_ = heap_accounts[node_];
  watch_ = std::make_unique<SlotWatch>(switch_.get(), record_);
  if (tap_ != nullptr) switch_->hand_requests_to(tap_);
}

void SwitchNode::kill() {
  if (!alive()) return;
  record_->count(Fault::leases_expired, switch_->counters().sessions_expired.get());
  watch_.reset();
  switch_.reset();
  check_heap(record_, node_, {}, {}, "which is gone");
}

void SwitchNode::deliver(int from, const uint8_t* frame, size_t size, bool damaged) {
  if (!alive()) return;
  request_ = frame;
  request_size_ = size;
  watch_->before(from, frame, size, damaged);
  if (tap_ != nullptr && is_open(frame, size)) {
    tap_->request(frame, size, endpoint_of(from));  // A real controller is asked over a connection of its own.
  } else {
    const Charge charge(node_);
    switch_->process(frame, size, endpoint_of(from), record_->now(), *this);
  }
  watch_->after();
  if (size > 0 && wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kRequest)) watch_->prune();
}

void SwitchNode::sweep() {
  if (!alive()) return;
  {
    const Charge charge(node_);
    switch_->sweep(record_->now());
  }
  watch_->prune();
}

void SwitchNode::unicast(const uint8_t* frame, size_t size, const Endpoint& to) {
  const Charge charge(kSimulator);
  if (wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kReply)) learn_from_reply(frame, size, node_at(to));
  watch_->output(frame, size, node_at(to), false);
  carrier_->carry(node_, node_at(to), frame, size);
}

void SwitchNode::multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) {
  const Charge charge(kSimulator);
  for (size_t i = 0; i < count; ++i) {
    watch_->output(frame, size, node_at(*to[i]), true);
    carrier_->carry(node_, node_at(*to[i]), frame, size);
  }
}

// A switch without a controller grants by itself: what it grants shows in its replies.
void SwitchNode::learn_from_reply(const uint8_t* frame, size_t size, int to) {
  wire::Reply reply;
  wire::ControlPacket asked;
  if (wire::parse_reply(frame, size, &reply) != wire::ParseError::kNone) return;
  if (wire::parse_control(request_, request_size_, wire::Kind::kRequest, &asked) != wire::ParseError::kNone) return;
  if (reply.status != wire::ReplyStatus::kOk) return;
  if (reply.type == wire::Request::kOpen) {
    const wire::Open open = wire::read_open(asked.body);
    watch_->add_session(reply.open.job, reply.open.epoch, open.shards, reply.open.slots, WorkerSet::first(open.workers),
                        -1, (reply.open.flags & wire::kOpenExact) != 0);
  } else if (reply.type == wire::Request::kJoin) {
    const wire::Join join = wire::read_join(asked.body);
    watch_->set_member(join.job, join.epoch, join.worker, join.shard, to);
  } else if (reply.type == wire::Request::kClose) {
    const wire::Close close = wire::read_close(asked.body);
    watch_->set_member(close.job, close.epoch, close.worker, -1, -1);
  }
}

void SwitchNode::hand_requests_to(softswitch::ControlTap* tap) {
  tap_ = tap;
  switch_->hand_requests_to(tap);
}

Status SwitchNode::install(const InstalledSession& session, int parent) {
  if (!alive()) return {Code::kUnavailable, "the switch is dead"};
  const Status status = [&] {
    const Charge charge(node_);
    return switch_->install(session, record_->now());
  }();
  if (status.ok()) {
    watch_->add_session(session.job, session.epoch, session.shards, session.slots, session.members, parent,
                        session.exact);
  }
  return status;
}

void SwitchNode::set_member(uint8_t job, uint32_t epoch, int worker, int shard, int node) {
  if (!alive()) return;
  {
    const Charge charge(node_);
    if (!switch_->set_member(job, epoch, worker, shard, endpoint_of(node)).ok()) return;
  }
  watch_->set_member(job, epoch, worker, shard, node);
}

void SwitchNode::remove(uint8_t job, uint32_t epoch) {
  if (!alive()) return;
  switch_->remove(job, epoch);
  watch_->prune();
}

WorkerSet SwitchNode::contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) const {
  if (!alive()) return {};
  const auto set = switch_->contributed(job, epoch, slot, seq);
  return set.ok() ? set.value() : WorkerSet{};
}

void SwitchNode::check_memory() {
  if (!alive()) return;
  const size_t used = switch_->slot_memory_in_use();
  if (used > options_.slot_memory_bytes || switch_->sessions() > options_.max_jobs) {
    record_->broken(Rule::kMemory, "a switch holds " + std::to_string(used) + " bytes of slots for " +
                                       std::to_string(switch_->sessions()) + " sessions, more than it may");
  }
  const auto sessions = static_cast<size_t>(switch_->sessions());
  const Heap most{used + sessions * kMostPerSession.bytes, sessions * kMostPerSession.blocks};
  check_heap(record_, node_, empty_, most, "with the sessions that it has");
}

void SwitchNode::check_empty() {
  if (!alive() || (switch_->sessions() == 0 && switch_->slot_memory_in_use() == 0)) return;
  record_->broken(Rule::kMemory, "all jobs are over, but a switch still holds " + std::to_string(switch_->sessions()) +
                                     " sessions and " + std::to_string(switch_->slot_memory_in_use()) +
                                     " bytes of slots");
}

}  // namespace switchml::sim
