// Finds out whether UDP reaches a switch that TCP reaches.
#pragma once

#include <functional>

#include "client/switch_address.h"
#include "transport/transport.h"

namespace switchml {

/// Whether a switch answers over TCP alone. Repeats a request on `packets` for two seconds; then sends one over TCP; if
/// that is answered, repeats it on `packets` for a second more. False where UDP passes, and where neither does. Returns
/// by `deadline`, or soon after `ended` returns an error. Blocks.
bool takes_tcp_alone(Transport& packets, const SwitchAddress& address, Time deadline,
                     const std::function<Status()>& ended = nullptr);

}  // namespace switchml
