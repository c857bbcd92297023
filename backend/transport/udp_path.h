// What the route to an endpoint carries.
#pragma once

#include <cstddef>

#include "transport/transport.h"

namespace switchml {

struct UdpPath {
  bool routed = false;   // there is a route at all
  bool on_host = false;  // it ends on this host
  size_t mtu = 0;        // bytes of an IP packet
};

/// Asks the kernel with a throwaway connected socket; nothing is sent. A few microseconds.
UdpPath udp_path(const Endpoint& to);

/// The address of this host from which packets to `to` leave, port 0; empty without a route.
Endpoint local_address_towards(const Endpoint& to);

/// IP and UDP headers in front of a frame to `to`.
size_t udp_header_bytes(const Endpoint& to);

/// Bytes of the largest frame that fits the path's MTU in one packet, at most `max_frame_bytes`; without a route, what
/// a path of the smallest usual MTU carries.
size_t udp_segment_limit(const UdpPath& path, const Endpoint& to, size_t max_frame_bytes);

}  // namespace switchml
