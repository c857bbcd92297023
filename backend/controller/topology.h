// The topology: switches, their trees, and workers with their ports. Values only; controllerd/topology_file.h reads
// them from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "socket/endpoint.h"

namespace switchml::controller {

/// The address of a worker or a switch, as another switch sees it.
struct SwitchPort {
  Endpoint endpoint;
  std::string mac;    // "02:00:00:00:00:01"; empty: the switch finds it.
  uint32_t port = 0;  // The switch's own port; 0: the switch finds it.

  friend bool operator==(const SwitchPort& a, const SwitchPort& b) {
    return a.endpoint == b.endpoint && a.mac == b.mac && a.port == b.port;
  }
};

inline constexpr int kNone = -1;
inline constexpr size_t kUplinkMtu = 1500;  // The default: Ethernet's.

/// The link from a switch to its parent. Ports are 0 where switches find them.
struct UplinkSpec {
  uint32_t port = 0;            // Own port towards the parent.
  uint32_t port_at_parent = 0;  // The parent's port towards this switch.
  size_t mtu = kUplinkMtu;      // Most bytes of an IP packet.
  bool operator==(const UplinkSpec& other) const {
    return port == other.port && port_at_parent == other.port_at_parent && mtu == other.mtu;
  }
};

struct SwitchSpec {
  std::string name;
  std::string agent;        // ADDRESS:PORT of its agent, for gRPC.
  std::string agent_token;  // Empty: none.
  Endpoint address;         // The address for packets.
  std::string mac;          // Used if its agent reports none; empty: unknown.
  int parent = kNone;       // Index into Topology::switches.
  UplinkSpec up;
};

struct WorkerSpec {
  std::string name;
  std::vector<Endpoint> addresses;  // Ports are ignored.
  int attached = kNone;             // Index into Topology::switches.
  uint32_t port = 0;                // Port of that switch; 0: unknown.
  std::string speed;                // "100G", for people; empty: unknown.
};

struct Topology {
  std::vector<SwitchSpec> switches;  // At least one; parents form no cycle.
  std::vector<WorkerSpec> workers;   // None: any host may be a worker of the only switch.
  Duration lease = std::chrono::minutes(30);
};

/// The worker with this address, whatever the port, or kNone.
int worker_at(const Topology& topology, const Endpoint& address);

/// The largest payload, in bytes, that crosses the uplink of a switch with this address unfragmented.
size_t uplink_payload(const Endpoint& address, const UplinkSpec& link);

/// Switches from this one up to its root, both included.
std::vector<int> path_to_root(const Topology& topology, int from);

}  // namespace switchml::controller
