// One rank's part in finding memory that it shares with the ranks of its host, while a group is opened: the topics
// "memory" and "host" of agreement.h. Where one rank has none, all do without.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/host_layout.h"
#include "session/shared_memory.h"
#include "store/rendezvous.h"
#include "store/store_exchange.h"

namespace switchml {

class HostMemory {
 public:
  /// Borrows group and exchange. What another rank offers is awaited until `deadline`; to fetch it takes `fetch_time`
  /// (2 s where that is less) at most.
  HostMemory(const GroupInfo& group, StoreExchange& exchange, Duration fetch_time, Time deadline)
      : group_(group), exchange_(exchange), fetch_time_(fetch_time), deadline_(deadline) {}

  // ---- a group on one host ----

  /// Rank 0: makes memory for the group, with so much for tensors of each rank (shared_memory.h), and writes to `blob`
  /// how it is to be fetched.
  Status offer(size_t arena_bytes, Blob* blob);
  /// Every rank, rank 0 behind offer(): fetches it, and says on "memory" if it could not. An error: that was not said.
  Status fetch(const Blob& offered);
  /// Rank 0, behind fetch(): hears that of all. "rank 2: ...": why one has none; empty: all have it.
  Result<std::string> missing(Time until);

  // ---- a group on several hosts ----

  /// Every rank: the first one of each host offers on "host", the others fetch.
  void share(const HostLayout& hosts);
  /// Why this rank has none; empty if it does.
  const std::string& why_none() const { return why_none_; }

  // ---- when all have said whether they have it ----

  /// The memory, or null. No rank can fetch it any more.
  std::shared_ptr<shm::Segment> take();

  /// "rank 2: ...": the first rank that reports a reason ("why") for doing without; empty if there is none.
  static std::string first_without(const std::vector<Blob>& said);

 private:
  Time fetch_end() const;
  Status share_with(int leader, const shm::BoardShape& shape);

  const GroupInfo& group_;
  StoreExchange& exchange_;
  Duration fetch_time_;
  Time deadline_;
  MemoryOffer offer_;  // on a host's first rank
  std::shared_ptr<shm::Segment> memory_;
  std::string why_none_;
};

}  // namespace switchml
