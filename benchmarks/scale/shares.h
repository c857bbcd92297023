// Exact aggregation by hosts: each adds its share of the tensor for all, gets a contribution from each other worker and
// sends each the result, in turn, beginning with the host after itself.
#pragma once

#include "fabric.h"
#include "outcome.h"
#include "segments.h"

namespace switchml::scale {

Outcome run_shares(const WayOptions& options, Fabric* fabric, EventQueue* events);

}  // namespace switchml::scale
