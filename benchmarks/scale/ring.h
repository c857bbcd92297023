// A ring of all workers, in the order of hosts: each segment goes round until all have added to it, and once more until
// all have it. A packet goes on as soon as it has come.
#pragma once

#include "fabric.h"
#include "outcome.h"
#include "segments.h"

namespace switchml::scale {

Outcome run_ring(const WayOptions& options, Fabric* fabric, EventQueue* events);

}  // namespace switchml::scale
