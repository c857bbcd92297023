#include "softswitch/session_table.h"

#include <algorithm>

#include "base/siphash.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {

using wire::ReplyStatus;

// ---- an entry ----

bool SessionEntry::speaks_for(int worker, const Endpoint& from) const {
  if (from.size == 0) return false;
  for (int shard = 0; shard < shards_; ++shard) {
    if (member(worker, shard) == from) return true;
  }
  return false;
}

WorkerSet SessionEntry::joined_workers() const {
  WorkerSet set;
  for (int worker = 0; worker < workers_; ++worker) {
    const Endpoint* first = &members_[index(worker, 0)];
    if (std::all_of(first, first + shards_, [](const Endpoint& e) { return e.size != 0; })) set.insert(worker);
  }
  return set;
}

bool SessionEntry::anybody_joined() const { return joined_pairs_ > 0; }

void SessionEntry::set_member(int worker, int shard, const Endpoint& endpoint) {
  Endpoint& member = members_[index(worker, shard)];
  joined_pairs_ += (endpoint.size != 0) - (member.size != 0);
  member = endpoint;
  auto& audience = audiences_[static_cast<size_t>(shard)];
  audience.clear();
  for (int w = 0; w < workers_; ++w) {
    const Endpoint& e = members_[index(w, shard)];
    if (e.size != 0) audience.push_back(&e);
  }
}

// ---- the table ----

OpenOutcome SessionTable::open(const wire::Open& asked, Time now, const Endpoint& client) {
  const size_t free = free_memory();
  size_t quota = free;
  if (client.size != 0) {
    const ClientUse used = used_by(client);
    if (used.jobs >= limits_.client_jobs && find_client(asked.client_key) == nullptr) return quota_used_up();
    quota = quota_left(used);
  }
  OpenOutcome out = open(asked, {grant_limits(std::min(free, quota))}, now);
  if (out.status == ReplyStatus::kNoSlots && quota < free) return quota_used_up();
  if (out.fresh != nullptr) out.fresh->client_ = client;
  return out;
}

GrantLimits SessionTable::grant_limits(size_t memory_bytes) const {
  GrantLimits limits;
  limits.free_slot_memory_bytes = memory_bytes;
  limits.max_payload_bytes = limits_.max_payload_bytes;
  limits.receive_buffer_bytes = limits_.receive_buffer_bytes;
  limits.whole_chunks = limits_.whole_chunks;
  limits.exact = limits_.exact;
  return limits;
}

int SessionTable::slots_with(const wire::Open& asked, size_t memory_bytes) const {
  return grant(asked, {grant_limits(memory_bytes)}).slots;
}

bool SessionTable::lacks_quota(const wire::Open& asked, const Endpoint& client) const {
  if (client.size == 0 || find_client(asked.client_key) != nullptr) return false;
  const ClientUse used = used_by(client);
  const size_t most = std::min(limits_.slot_memory_bytes, limits_.client_memory_bytes);
  return used.jobs >= limits_.client_jobs || slots_with(asked, quota_left(used)) < slots_with(asked, most);
}

bool SessionTable::lacks_room(const wire::Open& asked, const Endpoint& client) const {
  if (find_client(asked.client_key) != nullptr) return false;
  size_t most = limits_.slot_memory_bytes;
  if (client.size != 0) {
    const ClientUse used = used_by(client);
    if (used.jobs >= limits_.client_jobs) return false;  // Room would not help.
    most = std::min(most, quota_left(used));
  }
  const int wanted = slots_with(asked, most);
  return wanted > 0 && (free_job() == 0 || slots_with(asked, free_memory()) < wanted);
}

OpenOutcome SessionTable::quota_used_up() {
  OpenOutcome out;
  out.status = ReplyStatus::kQuota;
  return out;
}

SessionTable::ClientUse SessionTable::used_by(const Endpoint& client) const {
  ClientUse use;
  for (const auto& entry : entries_) {
    if (!entry || entry->client_ != client) continue;
    ++use.jobs;
    use.memory_bytes += entry->slot_memory_bytes_;
  }
  return use;
}

OpenOutcome SessionTable::open(const wire::Open& asked, const std::vector<GrantLimits>& switches, Time now) {
  OpenOutcome out;
  if (const SessionEntry* known = find_client(asked.client_key)) {  // [OPEN-2]
    const bool same = known->workers_ == asked.workers && known->shards_ == asked.shards;
    out.status = same ? ReplyStatus::kOk : ReplyStatus::kBadRequest;
    out.reply = known->reply_;
    return out;
  }
  if ((asked.flags & wire::kOpenUnreliable) != 0) {  // [RDMA-9]
    out.status = ReplyStatus::kNoCard;
    return out;
  }
  const bool by_card = (asked.flags & wire::kOpenRdma) != 0;
  if (by_card && (!limits_.has_card || (asked.flags & wire::kOpenStream) != 0)) {  // [OPEN-7]
    out.status = limits_.has_card ? ReplyStatus::kBadRequest : ReplyStatus::kNoCard;
    return out;
  }
  const Grant granted = grant(asked, switches);
  const uint8_t job = free_job();
  out.status = granted.status == ReplyStatus::kOk && job == 0 ? ReplyStatus::kNoJobs : granted.status;
  out.refused_by = granted.refused_by;
  if (out.status != ReplyStatus::kOk) return out;

  InstalledSession session;
  session.job = job;
  session.epoch = next_epoch(job);
  session.shards = asked.shards;
  session.slots = granted.slots;
  session.payload_bytes = granted.payload_bytes;
  session.members = WorkerSet::first(asked.workers);
  // [LEN-3, EXACT-1, OPEN-5]
  const auto flags = static_cast<uint8_t>(
      (granted.whole_chunks ? wire::kOpenWholeChunks : 0) | (granted.exact ? wire::kOpenExact : 0) |
      (limits_.suits_tcp ? wire::kOpenStream : 0) | (limits_.has_card ? wire::kOpenRdma : 0));
  auto entry = make_entry(session, flags, now);
  entry->client_key_ = asked.client_key;
  const bool by_tcp = (asked.flags & wire::kOpenStream) != 0;
  if (by_card) entry->checks_elements_ = false;
  entry->carrier_ = by_card ? Carrier::kRdma : by_tcp ? Carrier::kTcp : Carrier::kPackets;
  entry->reply_.session_key = next_random();
  const auto lease_ms = std::chrono::duration_cast<milliseconds>(limits_.lease).count();
  entry->reply_.lease_ms = static_cast<uint32_t>(std::min<int64_t>(lease_ms, UINT32_MAX));

  out.reply = entry->reply_;  // [OPEN-1]
  out.fresh = keep(std::move(entry));
  last_job_ = job;
  return out;
}

std::unique_ptr<SessionEntry> SessionTable::make_entry(const InstalledSession& session, uint8_t flags, Time now) const {
  auto entry = std::make_unique<SessionEntry>();
  entry->workers_ = session.members.highest() + 1;
  entry->expected_ = session.members;
  entry->uplink_ = session.uplink;
  entry->shards_ = session.shards;
  entry->slots_per_shard_ = session.slots / session.shards;
  entry->members_.resize(static_cast<size_t>(entry->workers_) * static_cast<size_t>(session.shards));
  entry->audiences_.resize(static_cast<size_t>(session.shards));
  entry->last_heard = now;
  entry->checks_elements_ = !limits_.sealed;
  entry->reply_.epoch = session.epoch;
  entry->reply_.job = session.job;
  entry->reply_.slots = static_cast<uint16_t>(session.slots);
  entry->reply_.flags = flags;
  entry->reply_.payload = static_cast<uint32_t>(session.payload_bytes);
  entry->slot_memory_bytes_ =
      static_cast<size_t>(session.slots) * SlotStore::slot_bytes(session.payload_bytes, entry->kept());
  return entry;
}

SessionEntry* SessionTable::keep(std::unique_ptr<SessionEntry> entry) {
  slot_memory_in_use_ += entry->slot_memory_bytes_;
  ++sessions_;
  auto& kept = entries_[entry->job()];
  kept = std::move(entry);
  return kept.get();
}

SessionEntry* SessionTable::install(const InstalledSession& session, Time now) {
  if (entries_[session.job]) return nullptr;
  const uint8_t whole = limits_.whole_chunks ? wire::kOpenWholeChunks : uint8_t{0};
  auto entry = make_entry(session, whole | (session.exact ? wire::kOpenExact : uint8_t{0}), now);
  entry->reply_.session_key = session.session_key;
  entry->leased_ = false;
  return keep(std::move(entry));
}

bool SessionTable::set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint) {
  SessionEntry* entry = find(job, epoch);
  if (entry == nullptr || worker < 0 || worker >= entry->workers_ || !entry->expected_.test(worker)) return false;
  if (shard < -1 || shard >= entry->shards_) return false;
  for (int s = std::max(shard, 0); s < (shard < 0 ? entry->shards_ : shard + 1); ++s) {
    entry->set_member(worker, s, endpoint);
  }
  return true;
}

JoinOutcome SessionTable::join(const wire::Join& asked, const Endpoint& from, Time now) {
  JoinOutcome out;
  SessionEntry* entry = find(asked.job, asked.epoch);
  if (entry == nullptr) {
    out.status = ReplyStatus::kUnknownSession;
    return out;
  }
  // [JOIN-1, COOKIE-4]
  const bool allowed = asked.session_key == entry->reply_.session_key && asked.worker < entry->workers_ &&
                       asked.shard < entry->shards_ && !entry->left_.test(asked.worker);  // [JOIN-3]
  if (!allowed) {
    out.status = ReplyStatus::kNotMember;
    return out;
  }
  const Carrier came = from.carrier == Carrier::kTcpAccepted ? Carrier::kTcp : from.carrier;
  if (entry->leased_ && entry->carrier_ != came) {  // [JOIN-2, TCP-9]
    out.status = ReplyStatus::kBadRequest;          // Results go by one carrier only.
    return out;
  }
  out.reply.cookie = cookie_of(asked, from);
  if (asked.cookie != out.reply.cookie) {  // [COOKIE-2]
    out.status = ReplyStatus::kProveAddress;
    out.reply.joined = static_cast<uint16_t>(entry->joined_pairs_);
    return out;
  }
  entry->last_heard = now;
  if (entry->member(asked.worker, asked.shard) != from) entry->set_member(asked.worker, asked.shard, from);  // [JOIN-4]
  out.reply.joined = static_cast<uint16_t>(entry->joined_pairs_);
  return out;
}

CloseOutcome SessionTable::close(const wire::Close& asked, Time now) {
  CloseOutcome out;
  SessionEntry* entry = find(asked.job, asked.epoch);
  if (entry == nullptr) {
    out.status = ReplyStatus::kUnknownSession;
    return out;
  }
  if (asked.session_key != entry->reply_.session_key || asked.worker >= entry->workers_) {  // [CLOSE-1]
    out.status = ReplyStatus::kNotMember;
    return out;
  }
  entry->last_heard = now;
  entry->left_.insert(asked.worker);
  for (int shard = 0; shard < entry->shards_; ++shard) entry->set_member(asked.worker, shard, Endpoint{});  // [CLOSE-1]
  out.last = !entry->anybody_joined();                                                                      // [CLOSE-2]
  return out;
}

bool SessionTable::renew(uint8_t job, uint32_t epoch, uint64_t session_key, Time now) {
  SessionEntry* entry = find(job, epoch);
  if (entry == nullptr || entry->reply_.session_key != session_key) return false;
  entry->last_heard = now;
  return true;
}

std::vector<uint8_t> SessionTable::unheard(Time now, Duration limit) const {
  std::vector<uint8_t> jobs;
  for (const auto& entry : entries_) {
    if (entry && entry->leased_ && now - entry->last_heard > limit) jobs.push_back(entry->job());  // [LEASE-1]
  }
  // [LEASE-2]
  std::stable_sort(jobs.begin(), jobs.end(),
                   [this](uint8_t a, uint8_t b) { return entries_[a]->last_heard < entries_[b]->last_heard; });
  return jobs;
}

void SessionTable::end(uint8_t job) {
  if (!entries_[job]) return;
  slot_memory_in_use_ -= entries_[job]->slot_memory_bytes_;
  --sessions_;
  entries_[job].reset();
}

const SessionEntry* SessionTable::find_client(uint64_t client_key) const {
  for (const auto& entry : entries_) {
    if (entry && entry->leased_ && entry->client_key_ == client_key) return entry.get();
  }
  return nullptr;
}

// The next free number after the last one given, so that a number rests as long as possible. 0: none.
uint8_t SessionTable::free_job() const {  // [PKT-6]
  const int jobs = std::clamp(limits_.max_jobs, 1, kMaxJobs);
  for (int i = 0; i < jobs; ++i) {
    const int job = (last_job_ + i) % jobs + 1;
    if (!entries_[job]) return static_cast<uint8_t>(job);
  }
  return 0;
}

// A keyed hash of a counter: known epochs and keys do not tell others.
uint64_t SessionTable::next_random() {
  ++random_calls_;
  return siphash24({limits_.seed, ~limits_.seed}, &random_calls_, sizeof random_calls_);
}

// A keyed hash, so that joins before the proof leave no state. The key is not that of epochs and session keys.
// [COOKIE-1]
uint64_t SessionTable::cookie_of(const wire::Join& asked, const Endpoint& from) const {
  uint8_t text[wire::kJoinBytes + Endpoint::kBytes] = {};
  wire::Join member;
  member.epoch = asked.epoch;
  member.job = asked.job;
  member.worker = asked.worker;
  member.shard = asked.shard;
  wire::write_join(member, text);
  std::copy_n(from.bytes, from.size, text + wire::kJoinBytes);
  return siphash24({~limits_.seed, limits_.seed}, text, wire::kJoinBytes + from.size);
}

uint32_t SessionTable::next_epoch(uint8_t job) {
  uint32_t epoch = 0;
  while (epoch == 0 || epoch == last_epoch_[job]) epoch = static_cast<uint32_t>(next_random());  // [PKT-8]
  last_epoch_[job] = epoch;
  return epoch;
}

}  // namespace switchml::softswitch
