#include "controller/topology.h"

#include "transport/address.h"

namespace switchml::controller {

int worker_at(const Topology& topology, const Endpoint& address) {
  for (size_t i = 0; i < topology.workers.size(); ++i) {
    for (const Endpoint& own : topology.workers[i].addresses) {
      if (same_address(own, address)) return static_cast<int>(i);
    }
  }
  return kNone;
}

std::vector<int> path_to_root(const Topology& topology, int from) {
  std::vector<int> path;
  for (int at = from; at != kNone; at = topology.switches[static_cast<size_t>(at)].parent) path.push_back(at);
  return path;
}

}  // namespace switchml::controller
