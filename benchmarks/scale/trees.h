// In-network aggregation: jobs on trees of switches, all of them the cores that ship.
#pragma once

#include "fabric.h"
#include "job.h"
#include "outcome.h"

namespace switchml::scale {

Outcome run_trees(const TreeOptions& options, Fabric* fabric, EventQueue* events);

}  // namespace switchml::scale
