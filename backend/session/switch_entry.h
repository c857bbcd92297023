// A rank's way into a session of a switch: when its group opens, and when it comes back to a switch that it had lost.
#pragma once

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
/// A transport per shard, not joined yet.
Result<Transports> connect_shards(const Config& config, int rank, const Endpoint& to);

/// What a switch has granted, as rank 0 tells the others.
void write_grant(const wire::OpenReply& granted, Blob* blob);
/// Reads it into `session`, whose shards and switch_name are set. kMismatch: no session that this version can use.
Status read_grant(const Blob& blob, SessionParameters* session);

/// Joins with every transport, as shards from `first_shard` on; returns by `deadline`.
Status join_shards(const Transports& transports, const SessionParameters& session, Time deadline, int first_shard = 0);

/// Tells the switch that this worker has left; waits for its answer until `deadline`. Needs no engine and no transport.
void leave(const SessionParameters& session, Time deadline);

}  // namespace switchml
