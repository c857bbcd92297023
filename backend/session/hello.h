// The first thing that a rank says to its group: what it is, and the settings in which all ranks must be alike.
#pragma once

#include <vector>

#include "base/config.h"
#include "store/blob.h"
#include "store/rendezvous.h"

namespace switchml {

/// What this rank says. Errors: a setting of this process that it cannot follow (kernels, affinity, interface), named.
Result<Blob> hello_of(const Config& config, const GroupInfo& group);

/// kMismatch: a rank differs from rank 0; names the rank, the setting and both values. `hellos`: by rank, at least one.
Status compare_hellos(const std::vector<Blob>& hellos);

}  // namespace switchml
