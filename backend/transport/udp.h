// UDP over IPv4 or IPv6: sendmmsg/recvmmsg, UDP_SEGMENT (GSO) for runs of equal frames to one endpoint, UDP_GRO on
// receipt, where the kernel has them.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace switchml {

class LocalAddresses;

struct UdpOptions {
  /// Where to bind. Port 0 takes a free one. Family and address as given (an IPv6 socket takes IPv6 only); size 0 binds
  /// the wildcard of the peer's family, or 0.0.0.0:0. A socket bound to a wildcard answers a frame from the address
  /// that the frame came to, provided that the answer goes to the very Endpoint received (see Endpoint::via).
  Endpoint bind;
  /// If set, the socket is connected: only frames from there are received, and its ICMP errors are reported.
  Endpoint peer;
  /// Largest frame that is ever sent or received, 1 to 65507; longer ones are dropped, see take_error() for those sent.
  size_t max_frame_bytes = 65507;
  /// Wanted kernel buffers. Granted with CAP_NET_ADMIN, otherwise up to net.core.[rw]mem_max; limits() says what came
  /// out.
  size_t receive_buffer_bytes = 8 << 20;
  size_t send_buffer_bytes = 8 << 20;
  /// Receive buffers, 1 to 1024, each of 64 KiB (of max_frame_bytes without segmentation): a receive() takes at most so
  /// many datagrams from the kernel, and lends at most so many frames if none of them was coalesced.
  size_t receive_frames = 32;
  std::shared_ptr<LocalAddresses> local_addresses;  // null: its own
  /// Off: never use GSO/GRO (for tests and old NICs).
  bool segmentation = true;
};

/// Sockets, buffers and limits are fixed from here on: nothing is allocated per packet. An error names the address and
/// what the kernel said: kInvalidArgument for options out of range, kUnavailable for what the host refuses.
Result<std::unique_ptr<Transport>> make_udp_transport(const UdpOptions& options);

}  // namespace switchml
