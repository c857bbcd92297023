// Whether packets reach a switch that TCP reaches, before anything depends on it.
#pragma once

#include <functional>

#include "client/switch_address.h"
#include "transport/transport.h"

namespace switchml {

/// That a switch answers over TCP alone: a packet is sent to it again and again, for two seconds, on `packets`; then a
/// request over TCP; and if that is answered, packets for a second more. False where packets pass, and where nothing
/// does. Returns by `deadline`, or soon after `ended` says why to. Blocks.
bool takes_tcp_alone(Transport& packets, const SwitchAddress& place, Time deadline,
                     const std::function<Status()>& ended = nullptr);

}  // namespace switchml
