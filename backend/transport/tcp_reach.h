// Whether peers take TCP connections, before anything depends on it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace switchml {

/// Connects to all of them side by side, and closes again. Returns by `deadline`: why the first of them cannot be
/// reached, or "". What a peer refuses is told at once; one that does not answer has until the deadline. Blocks.
std::string why_no_tcp(const std::vector<Endpoint>& peers, Time deadline);

}  // namespace switchml
