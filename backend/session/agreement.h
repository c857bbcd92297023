// How the ranks of a group come to share a session. Each step leaves a blob per rank in the store; whoever fails leaves
// its error instead, and all ranks end with that error.
//
//   rank                                   topic      what rank 0 does with it
//   every rank: host, versions, settings,  hello      compares; finds the switch, asks a controller or starts one
//     and how its death is seen until then
//   rank 0: the switches' addresses        switch
//     or, on several hosts without any: then
//   each host's first rank: its aggregator aggregator
//     or, on one host, memory to share: then
//   every rank: has it or why not          memory     says under "place" that all have it, or names a switch after all
//     or, on hosts with several ranks, who is on which one beside the switch: then
//   each host's first rank: memory         host
//   every rank: what its path carries,     path       takes the least; opens the session, of hosts if all have memory
//     and why it has no memory
//   rank 0: session, key, secret, where    plan
//     it listens for the others' PeerWatch
//   every rank: joined with every shard    joined     (everybody waits for everybody)
//     and, where "auto" chose the payload and a path leaves its host:
//   every rank: which payload came back    passes     takes the least. Less than the session's: all leave it, and
//   rank 0: which it is                    payload    "plan" to "payload" happen again, with a number
//     and, where it chose the slots too, or TCP may be taken:
//   every rank: how many chunks its path   speed      fast links that TCP passes: opens sessions over TCP. Else, if the
//     holds, how fast it is, its socket,              longest path needs more slots than the session has: another one
//     and whether TCP passes                          that has them
//   rank 0: these sessions, as in "plan"   slots      if there are any, all leave theirs for them; "joined" again
// Who fails in between says so under "gave_up", where everybody looks who waits for any of these.
// session.cc adds: every rank: started, and rank 0: open, when all have the threads that they need.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "client/controller_entry.h"
#include "client/switch_entry.h"
#include "session/host_layout.h"
#include "session/opening_watch.h"
#include "session/placement.h"
#include "session/session.h"
#include "shm/segment.h"
#include "socket/fd.h"
#include "store/store_exchange.h"

namespace switchml {

/// What a rank holds when all have agreed.
struct Agreed {
  SessionParameters parameters;
  std::vector<SessionParameters> others;   // with further aggregators
  Transports transports;                   // session after session, one per shard that this rank drives, joined
  std::shared_ptr<shm::Segment> memory;    // of the ranks of this host, where they share some
  HostLayout hosts;                        // where hosts are the switch's workers; else of no ranks
  MachineRanks local;                      // the group's on this rank's machine
  std::unique_ptr<SwitchServer> embedded;  // where no switch is named: of the first rank of each host
  ControllerEntry controller;              // rank 0 of a group that has one
  Fd watch_listener;                       // rank 0, where it can listen
  Endpoint watch_address;                  // the others, where rank 0 listens; else empty
  std::unique_ptr<OpeningWatch> watch;     // Serves until all have started. Null: another session watches.
  uint64_t watch_key = 0;
  std::vector<int> leaders;  // of a group that may lose its switch: the first rank of each host

  std::vector<SessionParameters> sessions() const { return with_others(parameters, others); }
};

/// A collective of the group. Returns by `deadline`: so long ranks wait for ranks. What is done with a switch ends
/// after config.connect_timeout, which does not count while others are awaited. `controller` is kept in
/// Agreed::controller. `ended` (null: none): its error ends the agreement. `watched`: another session watches over
/// these ranks, so that this one does not.
Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller = nullptr,
                     const std::function<Status()>& ended = nullptr, bool watched = false);

}  // namespace switchml
