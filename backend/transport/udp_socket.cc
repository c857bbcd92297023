#include "transport/udp_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "socket/address.h"
#include "socket/sockaddr.h"

namespace switchml {

namespace {

std::string reason(int error) { return std::system_category().message(error); }

Status check(const UdpOptions& options) {
  const auto bad = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  if (options.max_frame_bytes < 1 || options.max_frame_bytes > kMaxUdpFrame) {
    return bad("UDP frames of up to " + std::to_string(options.max_frame_bytes) + " bytes; allowed: 1 to " +
               std::to_string(kMaxUdpFrame));
  }
  if (options.receive_frames < 1 || options.receive_frames > 1024) {
    return bad("UDP with " + std::to_string(options.receive_frames) + " receive buffers; allowed: 1 to 1024");
  }
  for (const Endpoint* address : {&options.bind, &options.peer}) {
    if (address->size != 0 && family_of(*address) == AF_UNSPEC) {
      return bad(to_string(*address) + " is not an IPv4 or IPv6 address");
    }
  }
  if (options.bind.size != 0 && options.peer.size != 0 && family_of(options.bind) != family_of(options.peer)) {
    return bad("UDP cannot talk from " + to_string(options.bind) + " to " + to_string(options.peer) +
               ": one is IPv4, the other IPv6");
  }
  return {};
}

bool set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

/// The privileged option goes beyond net.core.[rw]mem_max; without the privilege the kernel grants what it allows.
void set_buffer(int fd, int forced, int plain, size_t bytes) {
  const int value = static_cast<int>(std::min<size_t>(bytes, INT_MAX / 2));
  if (!set_option(fd, SOL_SOCKET, forced, value)) set_option(fd, SOL_SOCKET, plain, value);
}

/// Bytes of frames that the receive buffer holds. The kernel charges each packet with the memory that it occupies, and
/// therefore doubles what was asked for and reports the double. Half of that is a safe figure for single frames of 1
/// KiB and more; large frames and coalesced ones take hardly more than their size.
size_t receive_buffer(int fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &size) != 0) return 0;
  return static_cast<size_t>(bytes) / 2;
}

const char* advice(int error) {
  switch (error) {
    case EADDRINUSE: return " (another socket has this port; choose another port, or 0 for any)";
    case EADDRNOTAVAIL: return " (this host does not have this address)";
    case EACCES: return " (ports below 1024 need a privilege)";
    default: return "";
  }
}

Status bind_socket(const Endpoint& address, const UdpSocket& socket) {
  if (::bind(socket.fd.get(), as_sockaddr(address), address.size) == 0) return {};
  const int error = errno;
  return Status(Code::kUnavailable, "cannot bind UDP " + to_string(address) + ": " + reason(error) + advice(error));
}

/// Features that an old kernel lacks are left off.
void set_features(const UdpOptions& options, const Endpoint& bind, UdpSocket* socket) {
  const int fd = socket->fd.get();
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options.receive_buffer_bytes);
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options.send_buffer_bytes);
  socket->receive_buffer_bytes = receive_buffer(fd);
  if (options.segmentation) {
    socket->gso = set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 0);
    socket->gro = set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
  }
  if (socket->family == AF_INET6) {
    set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  } else {
    set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  }
  if (!is_any(bind) || options.peer.size != 0) return;
  socket->notes_local = socket->family == AF_INET6 ? set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
                                                   : set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

}  // namespace

void set_fragments(const UdpSocket& socket, bool allowed) {
  const int fd = socket.fd.get();
  // "Probe" does not heed what the kernel has heard about the path: a forged or stale ICMP message decides nothing.
  if (socket.family == AF_INET6) {
    set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, allowed ? IPV6_PMTUDISC_WANT : IPV6_PMTUDISC_PROBE);
    set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, allowed ? 0 : 1);
    set_option(fd, IPPROTO_IPV6, IPV6_RECVFRAGSIZE, allowed ? 0 : 1);
  } else {
    set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, allowed ? IP_PMTUDISC_WANT : IP_PMTUDISC_PROBE);
    set_option(fd, IPPROTO_IP, IP_RECVFRAGSIZE, allowed ? 0 : 1);
  }
}

Result<UdpSocket> open_udp_socket(const UdpOptions& options) {
  Status status = check(options);
  if (!status.ok()) return status;
  UdpSocket socket;
  const Endpoint& speaks = options.bind.size != 0 ? options.bind : options.peer;
  socket.family = speaks.size != 0 ? family_of(speaks) : AF_INET;
  const Endpoint bind = options.bind.size != 0 ? options.bind : any_endpoint(socket.family);
  socket.fd = Fd(::socket(socket.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.fd.valid()) {
    return Status(Code::kUnavailable, "cannot open a UDP socket for " + to_string(bind) + ": " + reason(errno));
  }
  // An address means one thing: an IPv6 socket does not take IPv4 packets under a mapped address.
  if (socket.family == AF_INET6) set_option(socket.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  set_features(options, bind, &socket);
  status = bind_socket(bind, socket);
  if (!status.ok()) return status;
  if (options.peer.size != 0) {
    if (::connect(socket.fd.get(), as_sockaddr(options.peer), options.peer.size) != 0) {
      return Status(Code::kUnavailable,
                    "cannot reach UDP " + to_string(options.peer) + " from " + to_string(bind) + ": " + reason(errno));
    }
    socket.connected = true;
  }
  socket.local = local_endpoint(socket.fd.get());
  return socket;
}

}  // namespace switchml
