// Opening the socket of a UDP transport.
#pragma once

#include "base/status.h"
#include "socket/fd.h"
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

/// Whether the kernel may cut up what leaves (it does by itself where it knows that a path needs it, which is how a
/// socket begins), or marks every packet "don't fragment" and refuses (EMSGSIZE) those that its own link does not
/// carry. In the second state it also says of each packet that arrives whether it was put together from fragments.
void set_fragments(const UdpSocket& socket, bool allowed);

}  // namespace switchml
