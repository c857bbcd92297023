// A rank's way into a session of a switch: when its group opens, and when it comes back to a switch that it had lost.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "session/blob.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// A socket of its own, for control requests.
Result<std::unique_ptr<Transport>> connect_to_switch(const Endpoint& to);
/// A transport per switch and shard, switch after switch, not joined yet. Those of one shard belong to one thread
/// (transport/shared_link.h). At least one switch.
Result<Transports> connect_shards(const Config& config, int rank, const std::vector<Endpoint>& switches);

/// What a switch has granted, as rank 0 tells the others.
void write_grant(const wire::OpenReply& granted, Blob* blob);
/// Reads it into `session`, whose shards and switch_name are set. kMismatch: no session that this version can use.
Status read_grant(const Blob& blob, SessionParameters* session);

/// Joins as that shard; returns by `deadline`, or soon after `ended`, if there is such, says why to.
Status join_shard(Transport& transport, const SessionParameters& session, int shard, Time deadline,
                  std::function<Status()> ended = nullptr);

/// Tells the switches of a session, and of others, that this worker has left; waits for their answers until `deadline`.
/// Needs no engine and no transport.
void leave(const SessionParameters& session, const std::vector<SessionParameters>& others, Time deadline);

}  // namespace switchml
