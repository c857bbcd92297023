// What there is: switches, how they hang together, and which worker is at which port. Values only; the file that they
// come from is read in controllerd/topology_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "socket/endpoint.h"

namespace switchml::controller {

/// Where packets of a worker or a switch come from and go to, as a switch sees it. Endpoints are socket addresses.
struct Place {
  Endpoint endpoint;
  std::string mac;    // "02:00:00:00:00:01"; empty where the switch finds it
  uint32_t port = 0;  // of the switch; 0: it finds the way

  friend bool operator==(const Place& a, const Place& b) {
    return a.endpoint == b.endpoint && a.mac == b.mac && a.port == b.port;
  }
};

inline constexpr int kNone = -1;
inline constexpr size_t kUplinkMtu = 1500;  // unless the topology says otherwise: Ethernet's

/// From a switch to its parent. Ports are 0 where switches find their way.
struct Link {
  uint32_t port = 0;            // own port towards the parent
  uint32_t port_at_parent = 0;  // the parent's port towards this switch
  size_t mtu = kUplinkMtu;      // bytes of an IP packet on the way
  bool operator==(const Link& other) const {
    return port == other.port && port_at_parent == other.port_at_parent && mtu == other.mtu;
  }
};

struct SwitchSpec {
  std::string name;
  std::string agent;        // ADDRESS:PORT where its agent takes gRPC
  std::string agent_token;  // empty: none
  Endpoint address;         // of packets
  std::string mac;          // for switches that must be told one, if its agent tells none; empty: not known
  int parent = kNone;       // index into Topology::switches
  Link up;
};

struct WorkerSpec {
  std::string name;
  std::vector<Endpoint> addresses;  // ports are ignored
  int attached = kNone;             // index into Topology::switches
  uint32_t port = 0;                // of that switch; 0: not known
  std::string speed;                // "100G", for people; empty: not known
};

struct Topology {
  std::vector<SwitchSpec> switches;  // at least one; parents form no cycle
  std::vector<WorkerSpec> workers;   // none: whoever comes is a worker of the only switch
  Duration lease = std::chrono::minutes(30);
};

/// The worker that has this address, whatever the port; kNone if there is none.
int worker_at(const Topology& topology, const Endpoint& address);

/// The largest payload of a packet that crosses the link of a switch with that address whole, in bytes.
size_t uplink_payload(const Endpoint& address, const Link& link);

/// Switches from this one up to its root, both included.
std::vector<int> path_to_root(const Topology& topology, int from);

}  // namespace switchml::controller
