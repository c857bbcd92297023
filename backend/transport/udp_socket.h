// Opening the socket of a UDP transport.
#pragma once

#include "base/status.h"
#include "transport/fd.h"
#include "transport/udp.h"

namespace switchml {

inline constexpr size_t kMaxUdpFrame = 65507;  // an IPv4 datagram of 65,535 bytes less its headers

struct UdpSocket {
  Fd fd;
  Endpoint local;
  int family = 0;
  bool connected = false;
  bool gso = false;          // the kernel knows UDP_SEGMENT
  bool gro = false;          // UDP_GRO is on
  bool notes_local = false;  // bound to a wildcard: received frames say where they came to
  size_t receive_buffer_bytes = 0;
};

/// Checks the options, creates, binds and connects. The socket does not block.
Result<UdpSocket> open_udp_socket(const UdpOptions& options);

}  // namespace switchml
