// Queue pairs of workers at switches that are the end of such: what an introduction says, and what is answered.
#pragma once

#include <optional>

#include "controller/commands.h"
#include "controller/topology.h"
#include "wire/packet.h"

namespace switchml::controller {

/// The worker's end, if the introduction is one that a switch can write to: of an unreliable pair, of the address that
/// it came from, and with room for a message of `payload_bytes` in a packet and in a place. [RDMA-10]
std::optional<QueuePair> pair_of(const wire::Introduction& its, const Endpoint& from, size_t payload_bytes);

/// What the worker has to know of the switch's end. `its`: the worker's own, which pair_of() has taken.
wire::Introduction introduction_of(const QueuePair& own, const Endpoint& address, const wire::Introduction& its);

}  // namespace switchml::controller
