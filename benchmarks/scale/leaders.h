// Rings in two levels: a chain through each rack brings the sum of its hosts to its first one, the leader; a ring of
// the leaders adds those; and chains bring the result back. All three run at a time, segment by segment. One job.
#pragma once

#include "fabric.h"
#include "outcome.h"
#include "segments.h"

namespace switchml::scale {

Outcome run_leaders(const WayOptions& options, Fabric* fabric, EventQueue* events);

}  // namespace switchml::scale
