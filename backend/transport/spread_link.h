// One session that several switches have alike, each for some of its slots: slot s is at number s mod n.
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.h"

namespace switchml {

/// A transport over `link`, which it owns. Frames to no endpoint (of size 0) go to the switch of their slot; requests
/// that concern no slot (a join) go to all. Those to an endpoint go there. What is received from others than `switches`
/// (at least one, all of the link's family) is dropped. No single peer can refuse: take_refusal() is false.
std::unique_ptr<Transport> spread_link(std::unique_ptr<Transport> link, std::vector<Endpoint> switches);

}  // namespace switchml
