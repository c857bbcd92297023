// Endpoints of the UDP transport are socket addresses, byte for byte: the kernel reads and writes them in place.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "socket/endpoint.h"

namespace switchml {

static_assert(sizeof(sockaddr_in6) == Endpoint::kBytes);

/// AF_INET, AF_INET6, or AF_UNSPEC for what is no socket address.
inline int family_of(const Endpoint& endpoint) {
  sa_family_t family = AF_UNSPEC;
  if (endpoint.size >= sizeof family) std::memcpy(&family, endpoint.bytes, sizeof family);
  if (family == AF_INET && endpoint.size == sizeof(sockaddr_in)) return AF_INET;
  if (family == AF_INET6 && endpoint.size == sizeof(sockaddr_in6)) return AF_INET6;
  return AF_UNSPEC;
}

/// Precondition: family_of(endpoint) is that of T.
template <typename T>
T load_sockaddr(const Endpoint& endpoint) {
  T address;
  std::memcpy(&address, endpoint.bytes, sizeof address);
  return address;
}

/// Takes sockaddr_in, sockaddr_in6.
template <typename T>
Endpoint to_endpoint(const T& address) {
  Endpoint endpoint;
  static_assert(sizeof address <= Endpoint::kBytes);
  std::memcpy(endpoint.bytes, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

inline const sockaddr* as_sockaddr(const Endpoint& endpoint) {
  return reinterpret_cast<const sockaddr*>(endpoint.bytes);
}

/// The endpoint of an address of either family; empty for others.
inline Endpoint endpoint_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) return to_endpoint(*reinterpret_cast<const sockaddr_in*>(address));
  if (address->sa_family == AF_INET6) return to_endpoint(*reinterpret_cast<const sockaddr_in6*>(address));
  return {};
}

/// 0.0.0.0 or ::, port 0.
inline Endpoint any_endpoint(int family) {
  if (family == AF_INET6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    return to_endpoint(address);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  return to_endpoint(address);
}

/// The wildcard address, whatever the port.
inline bool is_any(const Endpoint& endpoint) {
  if (family_of(endpoint) == AF_INET) return load_sockaddr<sockaddr_in>(endpoint).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family_of(endpoint) != AF_INET6) return false;
  const auto address = load_sockaddr<sockaddr_in6>(endpoint);
  return IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr);
}

/// The address that a socket is bound to; empty if the kernel does not say.
inline Endpoint local_endpoint(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return endpoint_of(reinterpret_cast<const sockaddr*>(&address));
}

}  // namespace switchml
