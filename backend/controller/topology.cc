#include "controller/topology.h"

#include <algorithm>

#include "socket/address.h"
#include "wire/layout.h"

namespace switchml::controller {

int worker_at(const Topology& topology, const Endpoint& address) {
  for (size_t i = 0; i < topology.workers.size(); ++i) {
    for (const Endpoint& own : topology.workers[i].addresses) {
      if (same_address(own, address)) return static_cast<int>(i);
    }
  }
  return kNone;
}

size_t uplink_payload(const Endpoint& address, const UplinkSpec& link) {
  const bool version6 = to_literal(address).find(':') != std::string::npos;
  const size_t ip = version6 ? 40 : 20;
  constexpr size_t kUdp = 8;
  const size_t headers = ip + kUdp + std::max(wire::kHeaderBytes, wire::kExactHeaderBytes);
  return link.mtu > headers ? link.mtu - headers : 0;
}

std::vector<int> path_to_root(const Topology& topology, int from) {
  std::vector<int> path;
  for (int at = from; at != kNone; at = topology.switches[static_cast<size_t>(at)].parent) path.push_back(at);
  return path;
}

}  // namespace switchml::controller
