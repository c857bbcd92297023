// What rank 0 has opened for all ranks, as each rank reads it under "plan", "slots" and "instead" (agreement.h). No
// I/O.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "session/host_layout.h"
#include "session/links.h"
#include "session/opening_watch.h"
#include "session/placement.h"

namespace switchml {

/// What a rank knows of its group's sessions before it reads a plan.
struct PlanTerms {
  const Config& config;
  const GroupInfo& group;
  HostLayout hosts;          // Each of them may be one worker; of no ranks: none is.
  Endpoint own_address;      // SessionParameters::own_address.
  bool seals_ranks = false;  // SessionParameters::seals_ranks.
};

struct Plan {
  std::vector<SessionParameters> sessions;  // With each switch.
  Carrier carrier = Carrier::kPackets;      // By which they are reached.
  HostLayout hosts;                         // These are the workers; of no ranks: the ranks are.
  bool checks_paths = false;                // Which payload passes is to be found out.
  bool may_take_tcp = false;                // No setting forbids it, and all switches say that ranks gain by it.
  bool may_take_rdma = false;               // The same of cards.
  MachineRanks local;
  WatchMeeting watch_meeting;  // The first plan alone has one.

  /// The first shard of a rank, and of its host's ranks its number.
  int first_shard(int rank) const { return hosts.ranks() > 0 ? hosts.place_of(rank) : 0; }
  /// Whether the rank has links of its own, or others of its host send.
  bool sends(int rank) const { return hosts.ranks() == 0 || first_shard(rank) < hosts.owners(); }
  /// Whether the rank is the one that speaks for its worker, in what concerns paths.
  bool speaks(int rank) const { return first_shard(rank) == 0; }
};

/// `switches`: as the rank reaches them now. kMismatch: no plan that this version can follow.
Result<Plan> read_plan(const Blob& said, const PlanTerms& terms, std::vector<SwitchAddress> switches);
/// The key of a session's grant in a plan.
std::string session_key(size_t number);

}  // namespace switchml
