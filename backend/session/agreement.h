// How the ranks of a group come to share a session: the phases, in their order. Each rank leaves a blob in the store
// for each, or its error instead, and all ranks end with that error. A phase returns what the next one takes.
//
//   rank                                   topic      what rank 0 does with it                 phase
//   every rank: host, versions, settings,  hello      compares; finds the switch, or asks a    hello.h
//     how its death is seen while opening             controller for one, or starts a switch
//   rank 0: the switches' addresses, what  switch                                              place.h
//     is encrypted, and the key of that
//     on several hosts without any:
//   each host's first rank: its aggregator aggregator  says under "aggregators" where all are
//     on one host, with memory to share:
//   every rank: has it or why not          memory     says under "place" that all have it, or
//                                                     names a switch after all
//     on hosts with several ranks:
//   each host's first rank: memory         host
//   every rank: what its path carries,     path       takes the least; opens the session,      links.h
//     and why it has no memory                        of hosts if all have memory              plan_maker.h
//   rank 0: session, key, secret, where    plan                                                plan.h
//     it listens for the others' PeerWatch
//   every rank: joined with every shard    joined     says under "met" that all have           joined.h
//     where "auto" chose the payload without a controller, and a path leaves its host:
//   every rank: which payload came back    passes     takes the least. Less than the           settle.h
//   rank 0: which it is                    payload    session's: all leave it, and "plan"
//                                                     to "payload" happen again, numbered
//     where it chose the slots of one switch too, or TCP or cards may be taken:
//   every rank: how many chunks its path   speed      opens other sessions: over cards, over
//     holds, how fast it is, its buffer,              TCP on fast links, or with more slots
//     and whether TCP and cards pass                  for long ones
//   rank 0: these sessions, as in "plan"   slots      all leave theirs for them; "joined" again
//     over cards:
//   every rank: whether its card reaches   reached    opens sessions without cards where one
//   rank 0: these sessions, or none        instead    does not; "joined" again
// A rank that fails in between says so under "gave_up", which every rank that waits for any of these reads. Rank 0
// alone reads what all ranks leave: so the keys that are read grow as the number of ranks does.
// attachment.cc adds: every rank: started, and where messages come in; rank 0: open, with all that, at the end.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "client/controller_entry.h"
#include "client/switch_entry.h"
#include "session/host_layout.h"
#include "session/opening_watch.h"
#include "session/placement.h"
#include "shm/segment.h"

namespace switchml {

/// What a rank holds when all have agreed.
struct Agreed {
  std::vector<SessionParameters> sessions;  // With each switch. In memory: one, which no switch has.
  Transports transports;                    // By session, then by shard that this rank drives; all have joined.
  std::shared_ptr<shm::Segment> memory;     // Of the ranks of this host, where they share some.
  HostLayout hosts;                         // The switch's workers, where those are hosts; else of no ranks.
  MachineRanks local;                       // The group's ranks on this rank's machine.
  std::unique_ptr<SwitchServer> embedded;   // This rank's own switch, if it hosts one.
  ControllerEntry controller;               // On rank 0 of a group that has one.
  WatchMeeting watch_meeting;
  std::unique_ptr<OpeningWatch> watch;  // Serves until all have started. Null: another attachment watches.
  std::vector<int> leaders;             // The first rank of each host, in a group that may lose its switch.
};

/// A collective of the group. Returns by `deadline`, until when ranks wait for each other. What is done with a switch
/// ends after config.connect_timeout, which does not count while others are awaited. `controller` is kept in
/// Agreed::controller. `ended` (null: none): its error ends the agreement. `watched`: another attachment of the
/// session watches over these ranks, so that this one does not.
Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller = nullptr,
                     const std::function<Status()>& ended = nullptr, bool watched = false);

}  // namespace switchml
