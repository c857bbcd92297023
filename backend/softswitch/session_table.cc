#include "softswitch/session_table.h"

#include <algorithm>

#include "quant/siphash.h"
#include "softswitch/slot_store.h"

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

SessionTable::Opened SessionTable::open(const wire::Open& asked, Time now) {
  Opened out;
  if (SessionEntry* known = find_client(asked.client_key)) {
    const bool same = known->workers_ == asked.workers && known->shards_ == asked.shards;
    out.status = same ? ReplyStatus::kOk : ReplyStatus::kBadRequest;
    out.reply = known->reply_;
    return out;
  }
  GrantLimits limits;
  limits.free_slot_memory_bytes = limits_.slot_memory_bytes - slot_memory_in_use_;
  limits.max_payload_bytes = limits_.max_payload_bytes;
  limits.receive_buffer_bytes = limits_.receive_buffer_bytes;
  const Grant granted = grant(asked, limits);
  const uint8_t job = free_job();
  out.status = granted.status == ReplyStatus::kOk && job == 0 ? ReplyStatus::kNoJobs : granted.status;
  if (out.status != ReplyStatus::kOk) return out;

  auto entry = std::make_unique<SessionEntry>();
  entry->client_key_ = asked.client_key;
  entry->workers_ = asked.workers;
  entry->shards_ = asked.shards;
  entry->slots_per_shard_ = granted.slots / asked.shards;
  entry->slot_memory_bytes_ = static_cast<size_t>(granted.slots) * SlotStore::slot_bytes(granted.payload_bytes);
  entry->members_.resize(size_t{asked.workers} * asked.shards);
  entry->audiences_.resize(asked.shards);
  entry->last_heard = now;
  entry->reply_.session_key = next_random();
  entry->reply_.epoch = next_epoch(job);
  entry->reply_.job = job;
  entry->reply_.slots = static_cast<uint16_t>(granted.slots);
  entry->reply_.flags = limits_.whole_chunks ? wire::kOpenWholeChunks : uint8_t{0};
  entry->reply_.payload = static_cast<uint32_t>(granted.payload_bytes);
  const auto lease_ms = std::chrono::duration_cast<milliseconds>(limits_.lease).count();
  entry->reply_.lease_ms = static_cast<uint32_t>(std::min<int64_t>(lease_ms, UINT32_MAX));

  slot_memory_in_use_ += entry->slot_memory_bytes_;
  ++sessions_;
  last_job_ = job;
  out.reply = entry->reply_;
  out.fresh = entry.get();
  entries_[job] = std::move(entry);
  return out;
}

SessionTable::Joined SessionTable::join(const wire::Join& asked, const Endpoint& from, Time now) {
  Joined out;
  SessionEntry* entry = find(asked.job, asked.epoch);
  if (entry == nullptr) {
    out.status = ReplyStatus::kUnknownSession;
    return out;
  }
  const bool allowed = asked.session_key == entry->reply_.session_key && asked.worker < entry->workers_ &&
                       asked.shard < entry->shards_ && !entry->left_.test(asked.worker);
  if (!allowed) {
    out.status = ReplyStatus::kNotMember;
    return out;
  }
  entry->last_heard = now;
  if (entry->member(asked.worker, asked.shard) != from) entry->set_member(asked.worker, asked.shard, from);
  out.reply.joined = static_cast<uint16_t>(entry->joined_pairs_);
  return out;
}

SessionTable::Closed SessionTable::close(const wire::Close& asked, Time now) {
  Closed out;
  SessionEntry* entry = find(asked.job, asked.epoch);
  if (entry == nullptr) {
    out.status = ReplyStatus::kUnknownSession;
    return out;
  }
  if (asked.session_key != entry->reply_.session_key || asked.worker >= entry->workers_) {
    out.status = ReplyStatus::kNotMember;
    return out;
  }
  entry->last_heard = now;
  entry->left_.insert(asked.worker);
  for (int shard = 0; shard < entry->shards_; ++shard) entry->set_member(asked.worker, shard, Endpoint{});
  out.last = !entry->anybody_joined();
  return out;
}

std::vector<uint8_t> SessionTable::expired(Time now) const {
  std::vector<uint8_t> jobs;
  for (const auto& entry : entries_) {
    if (entry && now - entry->last_heard > limits_.lease) jobs.push_back(entry->job());
  }
  return jobs;
}

void SessionTable::end(uint8_t job) {
  if (!entries_[job]) return;
  slot_memory_in_use_ -= entries_[job]->slot_memory_bytes_;
  --sessions_;
  entries_[job].reset();
}

SessionEntry* SessionTable::find_client(uint64_t client_key) {
  for (const auto& entry : entries_) {
    if (entry && entry->client_key_ == client_key) return entry.get();
  }
  return nullptr;
}

// The free number after the last one given, so that a number rests as long as possible. 0: none.
uint8_t SessionTable::free_job() const {
  const int jobs = std::clamp(limits_.max_jobs, 1, kMaxJobs);
  for (int i = 0; i < jobs; ++i) {
    const int job = (last_job_ + i) % jobs + 1;
    if (!entries_[job]) return static_cast<uint8_t>(job);
  }
  return 0;
}

// A keyed hash of a counter: who has seen some epochs and keys cannot tell the others.
uint64_t SessionTable::next_random() {
  ++random_calls_;
  return quant::siphash24({limits_.seed, ~limits_.seed}, &random_calls_, sizeof random_calls_);
}

uint32_t SessionTable::next_epoch(uint8_t job) {
  uint32_t epoch = 0;
  while (epoch == 0 || epoch == last_epoch_[job]) epoch = static_cast<uint32_t>(next_random());
  last_epoch_[job] = epoch;
  return epoch;
}

}  // namespace switchml::softswitch
