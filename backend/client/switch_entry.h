// A rank's way into a session of a switch: when its group opens, and when it comes back to a switch that it had lost.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "store/blob.h"
#include "switchd/server.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// A link of its own, for control requests, over what carries frames to there: packets or TCP.
Result<std::unique_ptr<Transport>> connect_to_switch(const Endpoint& to);
/// How requests that need no queue pair reach a switch.
Endpoint for_requests(const Endpoint& place);
/// Empty: this host has a card that can be used towards all these switches.
std::string why_no_rdma(const Config& config, const std::vector<Endpoint>& switches);
/// One shard's link to all these switches, which one carrier reaches, with the faults that the settings ask for.
Result<std::unique_ptr<Transport>> connect_shard(const Config& config, int rank, int shard,
                                                 const std::vector<Endpoint>& switches);
/// Whether sessions with several switches may move one by one: then each has links and threads of its own.
bool sessions_move(const Config& config);
/// A transport per switch and shard, switch after switch, not joined yet. Those of one shard belong to one thread
/// (transport/shared_link.h), but where sessions_move(). At least one switch.
Result<Transports> connect_shards(const Config& config, int rank, const std::vector<Endpoint>& switches);

/// What an open says of how its members come.
uint16_t open_flag_of(Carrier carrier);
/// Asks for a session in which the streams of that one can go on.
wire::Open open_like(const SessionParameters& session, uint64_t client_key);
/// What a switch has granted, as rank 0 tells the others.
void write_grant(const wire::OpenReply& granted, Blob* blob);
/// Reads it into `session`, whose shards and switch_name are set. kMismatch: no session that this version can use.
Status read_grant(const Blob& blob, SessionParameters* session);

/// Joins as that shard; returns by `deadline`, or soon after `ended`, if there is such, says why to.
Status join_shard(Transport& transport, const SessionParameters& session, int shard, Time deadline,
                  std::function<Status()> ended = nullptr);

/// Tells the switches of sessions that this worker has left; waits for their answers until `deadline`. Needs no engine
/// and no transport.
void leave(const std::vector<SessionParameters>& sessions, Time deadline);
constexpr Duration kLingerTime = seconds(2);
/// Waits until a switch of this process has no session: others may still need answers to their last packets.
void await_leavers(const SwitchServer& server, Duration patience = kLingerTime);

}  // namespace switchml
