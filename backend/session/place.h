// Where the ranks of a group meet: at a switch, in memory of their host, or both. The topics "switch", "aggregator",
// "memory", "place" and "host" of agreement.h.
#pragma once

#include <memory>
#include <vector>

#include "client/controller_entry.h"
#include "client/switch_address.h"
#include "session/encryption.h"
#include "session/hello.h"
#include "session/host_memory.h"
#include "session/opening.h"
#include "session/opening_watch.h"
#include "shm/segment.h"
#include "socket/address.h"

namespace switchml {

struct Place {
  std::vector<SwitchAddress> switches;   // Where sessions are opened. None: the group adds in `memory`.
  std::shared_ptr<shm::Segment> memory;  // Of the whole group, or null.
  /// Of this rank's host, with port 0, as the other hosts reach it; an error says why they do not.
  Result<Endpoint> own_address = literal_address("127.0.0.1", 0);
  std::vector<int> leaders;  // The first rank of each host, in a group that may lose its switch.
  Seals seals;
  HostLayout hosts;                         // Each may be one worker of the switch; of no ranks: none is.
  std::unique_ptr<HostMemory> host_memory;  // The part of this rank in finding such memory.
  std::unique_ptr<SwitchServer> embedded;   // This rank's own switch, if it hosts one.
  MachineRanks local;                       // With `memory`.
  WatchMeeting watch_meeting;               // On rank 0, and with `memory` on all.

  // ---- on rank 0 ----
  ControllerEntry controller;  // The group's, if it has one.
  Roster roster;
  std::vector<int> switch_ranks;  // Ranks that host a switch.
};

/// The phase after "hello", which all have said. `watched`: another session of these ranks has a watch.
Result<Place> agree_on_place(Opening& opening, std::shared_ptr<ControllerClient> controller, bool watched);

}  // namespace switchml
