// A plain UDP socket that sees what the kernel really delivers, and sends what no transport would.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

#include "socket/address.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"

namespace switchml {

class RawSocket {
 public:
  explicit RawSocket(const std::string& bind, bool gro = false) {
    const Endpoint address = resolve_address(bind, "test").value();
    fd_ = Fd(::socket(family_of(address), SOCK_DGRAM | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(fd_.get(), as_sockaddr(address), address.size), 0);
    const int on = 1;
    if (gro) {
      EXPECT_EQ(::setsockopt(fd_.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on), 0);
    }
  }
  Endpoint local() const { return local_endpoint(fd_.get()); }
  int fd() const { return fd_.get(); }
  void connect(const Endpoint& to) { EXPECT_EQ(::connect(fd_.get(), as_sockaddr(to), to.size), 0); }

  /// As one datagram, or cut by the kernel into `segment` bytes each.
  void send(const std::vector<uint8_t>& bytes, const Endpoint& to, int segment = 0) {
    EXPECT_EQ(::setsockopt(fd_.get(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment), 0);
    EXPECT_EQ(::sendto(fd_.get(), bytes.data(), bytes.size(), 0, as_sockaddr(to), to.size),
              static_cast<ssize_t>(bytes.size()));
  }

  struct Datagram {
    std::vector<uint8_t> bytes;
    int segment = 0;  // what UDP_GRO says; 0: not coalesced
    Endpoint from;
  };
  /// One datagram, waiting for up to a second; no bytes if none came.
  Datagram receive() {
    Datagram got;
    pollfd polled{fd_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 1000) <= 0) return got;
    got.bytes.resize(70000);
    iovec vector{got.bytes.data(), got.bytes.size()};
    alignas(cmsghdr) char control[64];
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    header.msg_name = got.from.bytes;
    header.msg_namelen = Endpoint::kBytes;
    const ssize_t size = ::recvmsg(fd_.get(), &header, 0);
    got.bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
    got.from.size = static_cast<uint8_t>(header.msg_namelen);
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) std::memcpy(&got.segment, CMSG_DATA(c), sizeof(int));
    }
    return got;
  }

 private:
  Fd fd_;
};

inline bool kernel_has_segmentation() {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM, 0));
  const int zero = 0;
  const int one = 1;
  return ::setsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &zero, sizeof zero) == 0 &&
         ::setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &one, sizeof one) == 0;
}

}  // namespace switchml
