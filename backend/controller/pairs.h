// Unreliable queue pairs between workers and switches: introductions, read and written.
#pragma once

#include <optional>

#include "controller/commands.h"
#include "controller/topology.h"
#include "wire/packet.h"

namespace switchml::controller {

/// The worker's end, if a switch can write to it: the introduction is that of an unreliable pair and of the address
/// that it came from, and a message of `payload_bytes` fits into a packet and into a place. [RDMA-10]
std::optional<QueuePair> pair_of(const wire::Introduction& its, const Endpoint& from, size_t payload_bytes);

/// The introduction of the switch's end. `its`: the worker's, which pair_of() has taken.
wire::Introduction introduction_of(const QueuePair& own, const Endpoint& address, const wire::Introduction& its);

}  // namespace switchml::controller
