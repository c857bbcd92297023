#include "transport/udp_path.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "socket/address.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"

namespace switchml {

namespace {
constexpr size_t kUdpHeader = 8;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kUsualMtu = 1280;  // the least that IPv6 asks of every link

// Port 0 would not connect; which port it is does not matter to a route.
Endpoint routable(const Endpoint& to) { return port_of(to) == 0 ? with_port(to, 9) : to; }
}  // namespace

Endpoint local_address_towards(const Endpoint& to) {
  if (family_of(to) == AF_UNSPEC) return {};
  const Fd fd(::socket(family_of(to), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Endpoint target = routable(to);
  if (!fd.valid() || ::connect(fd.get(), as_sockaddr(target), target.size) != 0) return {};
  return with_port(local_endpoint(fd.get()), 0);
}

UdpPath udp_path(const Endpoint& to) {
  UdpPath path;
  const int family = family_of(to);
  if (family == AF_UNSPEC) return path;
  const bool v6 = family == AF_INET6;
  const Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return path;
  const Endpoint target = routable(to);
  const int discover = v6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
  const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
  ::setsockopt(fd.get(), level, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &discover, sizeof discover);
  if (::connect(fd.get(), as_sockaddr(target), target.size) != 0) return path;
  path.routed = true;
  // A host talks to one of its own addresses from that very address.
  path.on_host = is_loopback(to) || same_address(local_endpoint(fd.get()), to);
  int mtu = 0;
  socklen_t size = sizeof mtu;
  if (::getsockopt(fd.get(), level, v6 ? IPV6_MTU : IP_MTU, &mtu, &size) == 0 && mtu > 0) {
    path.mtu = static_cast<size_t>(mtu);
  }
  return path;
}

size_t udp_header_bytes(const Endpoint& to) {
  return kUdpHeader + (family_of(to) == AF_INET6 ? kIpv6Header : kIpv4Header);
}

size_t udp_segment_limit(const UdpPath& path, const Endpoint& to, size_t max_frame_bytes) {
  const size_t mtu = path.mtu != 0 ? path.mtu : kUsualMtu;
  const size_t headers = udp_header_bytes(to);
  return std::min(max_frame_bytes, mtu > headers ? mtu - headers : 0);
}

}  // namespace switchml
