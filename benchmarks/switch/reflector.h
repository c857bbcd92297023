// What kernel UDP allows at best: everything that arrives goes back to its sender, untouched, in as few calls as there
// can be.
#pragma once

#include "base/status.h"
#include "transport/transport.h"

namespace switchml::bench {

/// Runs until the process is ended by a signal; returns an error where it cannot start.
Status reflect(const Endpoint& at);

}  // namespace switchml::bench
