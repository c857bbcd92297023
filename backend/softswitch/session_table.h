// The rules of sessions: who may open one [OPEN-1, OPEN-2], who is a member [JOIN-1, JOIN-4, COOKIE-1], when it ends
// [CLOSE-2, LEASE-1]. Every request is idempotent [CTL-5]. Free of I/O, of clocks and of the data path, so that the
// controller of a hardware switch can obey the very same rules.
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
  /// What its open was answered; of an installed session without lease, and without key unless it is exact.
  const wire::OpenReply& granted() const { return reply_; }
  /// Worker numbers are below this.
  int workers() const { return workers_; }
  /// Whose contributions complete a use: all of 0 to workers()-1, but for parts of a tree.
  const WorkerSet& expected() const { return expected_; }
  /// Null: this switch answers its members itself.
  const Uplink* uplink() const { return uplink_ ? &*uplink_ : nullptr; }
  int shards() const { return shards_; }
  int slots() const { return reply_.slots; }
  size_t payload_bytes() const { return reply_.payload; }
  bool whole_chunks() const { return (reply_.flags & wire::kOpenWholeChunks) != 0; }
  bool exact() const { return (reply_.flags & wire::kOpenExact) != 0; }
  /// Of an exact session's packets.
  wire::ChecksumRule checksum_rule() const { return {reply_.session_key, carrier_ != Carrier::kRdma}; }  // [RDMA-5]
  /// Contributions that a slot keeps.
  size_t kept() const { return exact() ? static_cast<size_t>(workers_) : 0; }
  /// Whether a packet may have so many bytes behind its header.
  bool takes(size_t bytes) const {
    return bytes == payload_bytes() || bytes == 0 || (bytes < payload_bytes() && !whole_chunks());  // [LEN-3]
  }
  int shard_of(uint16_t slot) const { return slot / slots_per_shard_; }  // [SHARD-1]

  /// Who opened it; empty: not known.
  const Endpoint& client() const { return client_; }
  /// Where (worker, shard) receives; an empty endpoint if it has not joined or has left. Precondition: both in range.
  const Endpoint& member(int worker, int shard) const { return members_[index(worker, shard)]; }
  /// Whether `from` is one of the worker's endpoints.
  bool speaks_for(int worker, const Endpoint& from) const;
  /// The endpoints that get the results of a shard's slots.
  const std::vector<const Endpoint*>& audience(int shard) const { return audiences_[static_cast<size_t>(shard)]; }
  /// Workers that have joined with every shard (and have not left).
  WorkerSet joined_workers() const;
  /// (worker, shard) pairs that have joined.
  int joined_pairs() const { return joined_pairs_; }

  /// Answers to a member leave from where its packets arrive. A controller knows addresses only.
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
  bool leased_ = true;  // ends when nobody is heard; false: a controller ends it
  int shards_ = 0;
  int slots_per_shard_ = 1;
  int joined_pairs_ = 0;
  size_t slot_memory_bytes_ = 0;
  std::vector<Endpoint> members_;
  std::vector<std::vector<const Endpoint*>> audiences_;  // by shard; into members_
  WorkerSet left_;
  Carrier carrier_ = Carrier::kPackets;  // by which members come; kTcp also for connections that they make
};

struct SessionLimits {
  size_t slot_memory_bytes = 0;  // of all sessions together
  size_t max_payload_bytes = 0;
  bool whole_chunks = false;
  bool exact = false;      // sessions may be, where that is asked for
  bool suits_tcp = false;  // replies say that TCP is for it
  bool has_card = false;   // members may come by RDMA
  int max_jobs = kMaxJobs;
  // Of one client, where it is known who asks.
  int client_jobs = kMaxJobs;
  size_t client_memory_bytes = SIZE_MAX;
  size_t receive_buffer_bytes = 0;  // 0: unbounded
  Duration lease = seconds(30);
  Duration silence = seconds(15);
  uint64_t seed = 0;  // of epochs and keys
};

class SessionTable {
 public:
  explicit SessionTable(const SessionLimits& limits) : limits_(limits) {}

  struct Opened {
    wire::ReplyStatus status = wire::ReplyStatus::kOk;
    wire::OpenReply reply;          // on kOk
    SessionEntry* fresh = nullptr;  // the session, if this call made it: its slots need memory
    size_t refused_by = 0;          // otherwise: the index of the switch whose limits forbid it
  };
  /// A session of the one switch that has these limits. `client`: who asks; empty: nobody whose sessions are counted.
  Opened open(const wire::Open& asked, Time now, const Endpoint& client = {});
  /// The same over several switches, of which each has limits of its own.
  Opened open(const wire::Open& asked, const std::vector<GrantLimits>& switches, Time now);

  struct Joined {
    wire::ReplyStatus status = wire::ReplyStatus::kOk;
    wire::JoinReply reply;  // where the status has_body()
  };
  Joined join(const wire::Join& asked, const Endpoint& from, Time now);

  struct Closed {
    wire::ReplyStatus status = wire::ReplyStatus::kOk;
    bool last = false;  // nobody is left: the caller frees the slots and calls end(job)
  };
  Closed close(const wire::Close& asked, Time now);

  /// A sign of life that came another way than by a join. False: no such session, or not its key.
  bool renew(uint8_t job, uint32_t epoch, uint64_t session_key, Time now);

  /// Makes a session known that a controller granted; it has no lease. Null if the job number is in use.
  SessionEntry* install(const InstalledSession& session, Time now);
  /// Where a member of an installed session receives and sends from; shard -1: all shards. False: no such session,
  /// worker or shard.
  bool place(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint);

  /// Null unless the job is open with this very epoch.
  SessionEntry* find(uint8_t job, uint32_t epoch) {
    SessionEntry* entry = entries_[job].get();
    return entry != nullptr && entry->epoch() == epoch ? entry : nullptr;
  }

  /// The session that an open with this client key made; null if there is none. Installed ones have no such key.
  const SessionEntry* find_client(uint64_t client_key) const;
  /// Null unless the job is open, whatever its epoch.
  const SessionEntry* find(uint8_t job) const { return entries_[job].get(); }

  /// As if a member had been heard: for a controller that could not have heard one.
  void extend_lease(uint8_t job, Time now) {
    if (entries_[job]) entries_[job]->last_heard = now;
  }

  /// Job numbers whose lease has run out, for the caller to end().
  std::vector<uint8_t> expired(Time now) const { return unheard(now, limits_.lease); }  // [LEASE-1]
  /// Job numbers that may be ended where what they hold is wanted: unheard for the limit of silence, or half of the
  /// lease. The longest silent first. [LEASE-3]
  std::vector<uint8_t> silent(Time now) const { return unheard(now, std::min(limits_.lease / 2, limits_.silence)); }
  /// Whether what its client may have besides is less than an open asks for, and could be granted at most.
  bool lacks_share(const wire::Open& asked, const Endpoint& client) const;
  /// Whether there is less than an open asks for, as far as its client may have it.
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
  struct Use {
    int jobs = 0;
    size_t memory_bytes = 0;
  };
  Use used_by(const Endpoint& client) const;
  size_t free_memory() const { return limits_.slot_memory_bytes - slot_memory_in_use_; }
  size_t share_left(const Use& used) const {
    return limits_.client_memory_bytes - std::min(used.memory_bytes, limits_.client_memory_bytes);
  }
  GrantLimits grant_limits(size_t memory_bytes) const;
  int slots_with(const wire::Open& asked, size_t memory_bytes) const;
  static Opened quota_used_up();
  uint64_t cookie_of(const wire::Join& asked, const Endpoint& from) const;
  uint64_t next_random();
  uint32_t next_epoch(uint8_t job);

  SessionLimits limits_;
  std::unique_ptr<SessionEntry> entries_[256];  // by job number
  uint32_t last_epoch_[256] = {};
  uint8_t last_job_ = 0;
  uint64_t random_calls_ = 0;
  size_t slot_memory_in_use_ = 0;
  int sessions_ = 0;
};

}  // namespace switchml::softswitch
