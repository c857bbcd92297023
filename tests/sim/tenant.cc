// The course of a job: opening, joining, running, the next session.
#include "tenant.h"

#include <algorithm>

#include "nodes.h"

namespace switchml::sim {

namespace {
constexpr Duration kMostPatience = seconds(1);      // between repeats of a request
constexpr Duration kLongestOpening = seconds(180);  // in which any session must have been opened and joined
}  // namespace

Tenant::Tenant(const TenantOptions& options, uint64_t seed, Carrier* carrier, Record* record, World world)
    : options_(options), random_(seed), carrier_(carrier), record_(record), world_(std::move(world)) {
  begin_session();
}

// ---- opening and joining, as client/control_client.h does it ----

void Tenant::begin_session() {
  if (sessions_done_ == options_.sessions) {
    phase_ = Phase::kFinished;
    return;
  }
  record_->count(Fault::sessions);
  world_.change_weather();
  std::vector<int> sockets;
  for (int w = 0; w < options_.workers; ++w) {
    for (int s = 0; s < options_.shards; ++s) sockets.push_back(node_of(options_.number, w, s));
  }
  world_.begin_session(sockets);
  disturbed_ = tainted_ = words_damaged_ = lost_ = false;
  phase_ = Phase::kOpening;
  move_ = Move::kNone;
  frames_ = 0;
  begun_ = record_->now();
  mismatch_at_ = -1;
  ranks_.clear();
  draw_packets();
  program_ = draw_program(random_, options_.workers, packets());
  expected_.assign(program_.size(), {});
  known_.assign(program_.size(), false);
  draw_trouble();
  reopen();
}

// Over trees sums of floats travel exactly, for the oracle knows no layout; elsewhere, with several ranks a worker,
// too.
void Tenant::draw_packets() {
  const bool is_long = options_.payload >= kMinPartialSumPayload;
  asks_for_exact_ = random_.chance(0.5) && (is_long || !options_.controlled);
  exact_ = asks_for_exact_ && options_.exact_granted;
  if (asks_for_exact_) record_->count(exact_ ? Fault::exact_sessions : Fault::exact_refused);
  constexpr int kHostRanks[] = {2, 2, 3, 4, 9, 17};
  host_ranks_ = exact_ && is_long && random_.chance(0.5) ? random_.pick(kHostRanks) : 1;
  partial_sum_ranks_ = host_ranks_ > 1 ? static_cast<size_t>(host_ranks_) : 0;
  if (exact_ && options_.controlled) partial_sum_ranks_ = kMaxWorkers;
  significant_bits_.reset();
  if (random_.chance(0.5)) significant_bits_ = static_cast<int>(random_.below(kMostSignificantBits + 1));
}

// Also in the middle of a move.
void Tenant::reopen() {
  if (phase_ == Phase::kRunning) {
    move_ = Move::kOpening;
  } else {
    phase_ = Phase::kOpening;
    session_ = {};
  }
  client_key_ = random_.next();
  request_ids_ = static_cast<uint32_t>(random_.next());
  open_ = {};
  joins_.assign(static_cast<size_t>(options_.workers * options_.shards), {});
}

void Tenant::ask(Asked* asked, int node, const uint8_t* frame, size_t size, Time now) {
  asked->again = now + asked->patience;
  asked->patience = std::min(2 * asked->patience, kMostPatience);
  carrier_->carry(node, switch_of(worker_of(node)), frame, size);
}

void Tenant::send_open(Time now) {
  if (now < open_.again) return;
  if (open_.request_id == 0) open_.request_id = ++request_ids_;
  wire::Open open;
  open.client_key = client_key_;
  open.workers = static_cast<uint16_t>(options_.workers);
  open.shards = static_cast<uint16_t>(options_.shards);
  open.slots = static_cast<uint16_t>(options_.slots);
  open.payload = static_cast<uint32_t>(options_.payload);
  open.flags = asks_for_exact_ ? wire::kOpenExact : uint16_t{0};
  uint8_t frame[wire::kMaxControlBytes];
  ask(&open_, node_of(options_.number, 0, 0), frame, wire::build_open(open, open_.request_id, frame), now);
}

void Tenant::send_joins(Time now) {
  for (size_t i = 0; i < joins_.size(); ++i) {
    if (joins_[i].answered || now < joins_[i].again) continue;
    if (joins_[i].request_id == 0) joins_[i].request_id = ++request_ids_;
    const int worker = static_cast<int>(i) / options_.shards;
    const int shard = static_cast<int>(i) % options_.shards;
    const wire::Membership member{session_.job, session_.epoch, session_.session_key, static_cast<uint8_t>(worker),
                                  joins_[i].cookie};
    uint8_t frame[wire::kMaxControlBytes];
    const size_t size = wire::build_join(member, shard, joins_[i].request_id, frame);
    ask(&joins_[i], node_of(options_.number, worker, shard), frame, size, now);
  }
}

void Tenant::on_open_reply(const wire::Reply& reply) {
  const bool moving = move_ == Move::kOpening;
  if ((phase_ != Phase::kOpening && !moving) || reply.request_id != open_.request_id) return;
  const bool other = moving && (reply.open.slots != session_.slots || reply.open.payload != session_.payload_bytes);
  if (reply.status != wire::ReplyStatus::kOk || other) {  // no slots or no jobs left: asked again a little later
    if (other) client_key_ = random_.next();
    record_->count(Fault::opens_refused);
    open_.request_id = 0;
    return;
  }
  session_.job = reply.open.job;
  session_.epoch = reply.open.epoch;
  session_.session_key = reply.open.session_key;
  session_.workers = options_.workers;
  session_.shards = options_.shards;
  session_.slots = reply.open.slots;
  session_.payload_bytes = reply.open.payload;
  session_.exact = (reply.open.flags & wire::kOpenExact) != 0;
  if (session_.exact != exact_) record_->broken(Rule::kError, "a session is not as exact as it must be");
  session_.tree = (reply.open.flags & wire::kOpenTree) != 0;
  session_.partial_sum_ranks = partial_sum_ranks_;
  if (session_.tree) record_->count(Fault::exact_trees);
  session_.whole_chunks = (reply.open.flags & wire::kOpenWholeChunks) != 0;
  session_.lease = milliseconds(reply.open.lease_ms);
  if (moving) {
    move_ = Move::kJoining;
    return;
  }
  session_.secret[0] = random_.next();
  session_.secret[1] = random_.next();
  session_.switch_name = "sim";
  session_.significant_bits = significant_bits_;
  session_.controlled = options_.controlled;
  phase_ = Phase::kJoining;
}

void Tenant::on_join_reply(const wire::Reply& reply, int node) {
  const auto index = static_cast<size_t>(worker_of(node) * options_.shards + shard_of(node));
  const bool moving = move_ == Move::kJoining;
  if ((phase_ != Phase::kJoining && !moving) || index >= joins_.size() || reply.request_id != joins_[index].request_id)
    return;
  if (reply.status == wire::ReplyStatus::kProveAddress) {
    joins_[index] = {};
    joins_[index].cookie = reply.join.cookie;
    return;
  }
  if (reply.status != wire::ReplyStatus::kOk) return reopen();  // the switch was restarted, or its lease was too short
  joins_[index].answered = true;
  const bool all = std::all_of(joins_.begin(), joins_.end(), [](const Asked& join) { return join.answered; });
  if (all && moving) stagger();
  if (all && !moving) start_ranks();
}

void Tenant::deliver(int from, int to, std::vector<uint8_t> bytes) {
  wire::Reply reply;
  const bool asking = phase_ != Phase::kRunning || move_ != Move::kNone;
  if (asking && wire::parse_reply(bytes.data(), bytes.size(), &reply) == wire::ParseError::kNone) {
    if (reply.type == wire::Request::kOpen) on_open_reply(reply);
    if (reply.type == wire::Request::kJoin) on_join_reply(reply, to);
  }
  const bool there = phase_ == Phase::kRunning && worker_of(to) < options_.workers;
  Rank* rank = there ? ranks_[static_cast<size_t>(worker_of(to))].get() : nullptr;
  if (rank == nullptr) return carrier_->recycle(std::move(bytes));
  rank->deliver(shard_of(to), from, std::move(bytes));
}

void Tenant::step(Time now) {
  switch (phase_) {
    case Phase::kOpening: send_open(now); break;
    case Phase::kJoining: send_joins(now); break;
    case Phase::kRunning: step_ranks(now); break;
    case Phase::kFinished: return;
  }
  const bool opening = phase_ == Phase::kOpening || phase_ == Phase::kJoining;
  if (opening && now - begun_ > kLongestOpening) {
    record_->broken(Rule::kEndless, "job" + std::to_string(options_.number) + " cannot open a session");
  }
}

Time Tenant::next() const {
  Time next = kNever;
  if (phase_ == Phase::kOpening) next = open_.again;
  if (phase_ == Phase::kJoining) {
    for (const Asked& join : joins_) next = std::min(next, join.answered ? kNever : join.again);
  }
  if (phase_ == Phase::kRunning) {
    for (const auto& rank : ranks_) next = std::min(next, rank == nullptr ? kNever : rank->next());
    next = std::min(next, next_of_move());
  }
  return next;
}

}  // namespace switchml::sim
