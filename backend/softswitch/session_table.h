// The rules of sessions: opens [OPEN-1, OPEN-2], membership [JOIN-1, JOIN-4, COOKIE-1], ends [CLOSE-2, LEASE-1]. Every
// request is idempotent [CTL-5]. Free of I/O, of clocks and of the data path, so that a controller of hardware switches
// obeys the very same rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "slots/worker_set.h"
#include "socket/endpoint.h"
#include "softswitch/grant.h"
#include "softswitch/installed.h"
#include "wire/checksum.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// A session and its members. Only SessionTable changes it, but for `last_heard` and note_via().
class SessionEntry {
 public:
  uint8_t job() const { return reply_.job; }
  uint32_t epoch() const { return reply_.epoch; }
  /// The reply to its open. An installed session has no lease, and a key only if it is exact.
  const wire::OpenReply& granted() const { return reply_; }
  /// Worker numbers are below this.
  int workers() const { return workers_; }
  /// Members that must contribute to a use: all of 0 to workers()-1, but for parts of a tree.
  const WorkerSet& expected() const { return expected_; }
  /// Null: this switch answers its members itself.
  const Uplink* uplink() const { return uplink_ ? &*uplink_ : nullptr; }
  int shards() const { return shards_; }
  int slots() const { return reply_.slots; }
  size_t payload_bytes() const { return reply_.payload; }
  bool whole_chunks() const { return (reply_.flags & wire::kOpenWholeChunks) != 0; }
  bool exact() const { return (reply_.flags & wire::kOpenExact) != 0; }
  /// For the packets of an exact session.
  wire::ChecksumRule checksum_rule() const { return {reply_.session_key, checks_elements_}; }
  /// The number of contributions that a slot keeps.
  size_t kept() const { return exact() ? static_cast<size_t>(workers_) : 0; }
  /// Whether a packet may have `bytes` bytes behind its header.
  bool takes(size_t bytes) const {
    return bytes == payload_bytes() || bytes == 0 || (bytes < payload_bytes() && !whole_chunks());  // [LEN-3]
  }
  int shard_of(uint16_t slot) const { return slot / slots_per_shard_; }  // [SHARD-1]

  /// The client that opened it; empty: unknown.
  const Endpoint& client() const { return client_; }
  /// The address of (worker, shard); empty if it has not joined or has left. Precondition: both in range.
  const Endpoint& member(int worker, int shard) const { return members_[index(worker, shard)]; }
  bool speaks_for(int worker, const Endpoint& from) const;
  /// The endpoints that get the results of a shard's slots.
  const std::vector<const Endpoint*>& audience(int shard) const { return audiences_[static_cast<size_t>(shard)]; }
  /// Workers that have joined with every shard (and have not left).
  WorkerSet joined_workers() const;
  /// (worker, shard) pairs that have joined.
  int joined_pairs() const { return joined_pairs_; }

  /// Sets the local address at which a member's packets arrive: answers leave from there.
  void note_via(int worker, int shard, uint8_t via) { members_[index(worker, shard)].via = via; }

  Time last_heard{};

 private:
  friend class SessionTable;
  size_t index(int worker, int shard) const {
    return static_cast<size_t>(worker) * static_cast<size_t>(shards_) + static_cast<size_t>(shard);
  }
  void set_member(int worker, int shard, const Endpoint& endpoint);
  bool anybody_joined() const;

  uint64_t client_key_ = 0;
  Endpoint client_;
  wire::OpenReply reply_;
  int workers_ = 0;
  WorkerSet expected_;
  std::optional<Uplink> uplink_;
  bool leased_ = true;  // Ends when no member is heard; false: a controller ends it.
  int shards_ = 0;
  int slots_per_shard_ = 1;
  int joined_pairs_ = 0;
  size_t slot_memory_bytes_ = 0;
  std::vector<Endpoint> members_;
  std::vector<std::vector<const Endpoint*>> audiences_;  // Shard -> elements of members_.
  WorkerSet left_;
  bool checks_elements_ = true;          // False: cards or seals do. [RDMA-5, SEAL-19]
  Carrier carrier_ = Carrier::kPackets;  // The members' carrier; kTcp also for connections that they make.
};

struct SessionLimits {
  size_t slot_memory_bytes = 0;  // All sessions' together.
  size_t max_payload_bytes = 0;
  bool whole_chunks = false;
  bool exact = false;      // Grants exact sessions to opens that ask for them.
  bool suits_tcp = false;  // Replies recommend TCP.
  bool has_card = false;   // Members may use RDMA.
  bool sealed = false;     // Links are.
  int max_jobs = kMaxJobs;
  // Quotas of a client, if the client of an open is known.
  int client_jobs = kMaxJobs;
  size_t client_memory_bytes = SIZE_MAX;
  size_t receive_buffer_bytes = 0;  // 0: unbounded.
  Duration lease = seconds(30);
  Duration silence = seconds(15);
  uint64_t seed = 0;  // Seed of epochs and keys.
};

struct OpenOutcome {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  wire::OpenReply reply;          // Set on kOk.
  SessionEntry* fresh = nullptr;  // The session, if this call made it: its slots need memory.
  size_t refused_by = 0;          // Unless kOk: the index of the switch with the limit that forbids it.
};

struct JoinOutcome {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  wire::JoinReply reply;  // Set if the status has_body().
};

struct CloseOutcome {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  bool last = false;  // No member is left: the caller frees the slots and calls end(job).
};

class SessionTable {
 public:
  explicit SessionTable(const SessionLimits& limits) : limits_(limits) {}

  /// Opens a session at the one switch with these limits. `client`: the opener; empty: it has no quota.
  OpenOutcome open(const wire::Open& asked, Time now, const Endpoint& client = {});
  /// Opens a session over several switches, each with limits of its own.
  OpenOutcome open(const wire::Open& asked, const std::vector<GrantLimits>& switches, Time now);

  JoinOutcome join(const wire::Join& asked, const Endpoint& from, Time now);

  CloseOutcome close(const wire::Close& asked, Time now);

  /// Extends the lease without a join. False: no such session, or another key.
  bool renew(uint8_t job, uint32_t epoch, uint64_t session_key, Time now);

  /// Adds a session that a controller granted; it has no lease. Null if the job number is in use.
  SessionEntry* install(const InstalledSession& session, Time now);
  /// Sets the address of a member of an installed session; shard -1: of all shards. False: no such session, worker or
  /// shard.
  bool set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint);

  SessionEntry* find(uint8_t job, uint32_t epoch) {
    SessionEntry* entry = entries_[job].get();
    return entry != nullptr && entry->epoch() == epoch ? entry : nullptr;
  }

  /// The session that an open with this client key made, or null. Installed sessions have no such key.
  const SessionEntry* find_client(uint64_t client_key) const;
  /// The session of this job, whatever its epoch, or null.
  const SessionEntry* find(uint8_t job) const { return entries_[job].get(); }

  /// Extends the lease: a controller may not have been able to hear members.
  void extend_lease(uint8_t job, Time now) {
    if (entries_[job]) entries_[job]->last_heard = now;
  }

  /// Jobs with leases that have run out, for the caller to end().
  std::vector<uint8_t> expired(Time now) const { return unheard(now, limits_.lease); }  // [LEASE-1]
  /// Jobs that may be ended to make room: unheard for the limit of silence, or half of the lease. The longest silent
  /// first. [LEASE-3]
  std::vector<uint8_t> silent(Time now) const { return unheard(now, std::min(limits_.lease / 2, limits_.silence)); }
  /// Whether the rest of the client's quota grants less than the whole quota would.
  bool lacks_quota(const wire::Open& asked, const Endpoint& client) const;
  /// Whether the switch, within the rest of the client's quota, cannot grant the request.
  bool lacks_room(const wire::Open& asked, const Endpoint& client) const;
  /// Forgets a session. Its epoch is never valid again.
  void end(uint8_t job);

  size_t slot_memory_in_use() const { return slot_memory_in_use_; }
  int sessions() const { return sessions_; }

 private:
  std::unique_ptr<SessionEntry> make_entry(const InstalledSession& session, uint8_t flags, Time now) const;
  SessionEntry* keep(std::unique_ptr<SessionEntry> entry);
  std::vector<uint8_t> unheard(Time now, Duration limit) const;
  uint8_t free_job() const;
  struct ClientUse {
    int jobs = 0;
    size_t memory_bytes = 0;
  };
  ClientUse used_by(const Endpoint& client) const;
  size_t free_memory() const { return limits_.slot_memory_bytes - slot_memory_in_use_; }
  size_t quota_left(const ClientUse& used) const {
    return limits_.client_memory_bytes - std::min(used.memory_bytes, limits_.client_memory_bytes);
  }
  GrantLimits grant_limits(size_t memory_bytes) const;
  int slots_with(const wire::Open& asked, size_t memory_bytes) const;
  static OpenOutcome quota_used_up();
  uint64_t cookie_of(const wire::Join& asked, const Endpoint& from) const;
  uint64_t next_random();
  uint32_t next_epoch(uint8_t job);

  SessionLimits limits_;
  std::unique_ptr<SessionEntry> entries_[256];  // Index: job number.
  uint32_t last_epoch_[256] = {};
  uint8_t last_job_ = 0;
  uint64_t random_calls_ = 0;
  size_t slot_memory_in_use_ = 0;
  int sessions_ = 0;
};

}  // namespace switchml::softswitch
