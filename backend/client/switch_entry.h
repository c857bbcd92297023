// A rank's way into a session of a switch, both when its group opens and when it comes back to a lost switch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "seal/seal_key.h"
#include "store/blob.h"
#include "switchd/server.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// A link for control requests, by UDP or by TCP as `to` says. `seal`: the switch's key; none: in the clear.
Result<std::unique_ptr<Transport>> connect_to_switch(const Endpoint& to, const std::optional<SealKey>& seal = {});
/// The address for requests that need no queue pair.
Endpoint for_requests(const Endpoint& to);
/// The reason why this host has no card that reaches all these switches; empty: it has one.
std::string why_no_rdma(const Config& config, const std::vector<Endpoint>& switches);
/// One shard's link to all these switches, which have one carrier and one key, with the faults of the settings.
Result<std::unique_ptr<Transport>> connect_shard(const Config& config, int rank, int shard,
                                                 const std::vector<Endpoint>& switches,
                                                 const std::optional<SealKey>& seal);
/// Whether sessions may move from one switch to another alone: then each has links and threads of its own.
bool sessions_move(const Config& config);
/// A transport per switch and shard, switch after switch, not joined yet. Those of one shard belong to one thread
/// (transport/shared_link.h), unless sessions_move(). At least one switch.
Result<Transports> connect_shards(const Config& config, int rank, const std::vector<Endpoint>& switches,
                                  const std::optional<SealKey>& seal);

uint16_t open_flag_of(Carrier carrier);
/// An open of a session in which the streams of `session` can go on.
wire::Open open_like(const SessionParameters& session, uint64_t client_key);
/// Writes a switch's grant, for the other ranks.
void write_grant(const wire::OpenReply& granted, Blob* blob);
/// Reads a grant into `session`, which has shards and switch_name. kMismatch: this version cannot use the session.
Status read_grant(const Blob& blob, SessionParameters* session);

/// Joins with one shard; returns by `deadline`, or soon after `ended`, if given, returns an error.
Status join_shard(Transport& transport, const SessionParameters& session, int shard, Time deadline,
                  std::function<Status()> ended = nullptr);

/// Closes this worker's membership in sessions; waits for the switches' answers until `deadline`. Needs no engine and
/// no transport.
void leave(const std::vector<SessionParameters>& sessions, Time deadline);
constexpr Duration kLingerTime = seconds(2);
/// Waits until a switch of this process has no session: other ranks may still need answers to their last packets.
void await_leavers(const SwitchServer& server, Duration patience = kLingerTime);

}  // namespace switchml
