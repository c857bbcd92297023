// A plain TCP socket that sends what no transport would, and sees what one really sends.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "socket/address.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"
#include "transport/stream_frames.h"

namespace switchml {

/// The bytes that a frame is on a connection.
inline std::vector<uint8_t> on_the_wire(const std::vector<uint8_t>& frame) {
  std::vector<uint8_t> bytes(kStreamPrefixBytes);
  write_stream_prefix(static_cast<uint32_t>(frame.size()), bytes.data());
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

class RawTcp {
 public:
  /// Waits until the kernel says that it is connected.
  explicit RawTcp(const Endpoint& to) : fd_(::socket(family_of(to), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connected_ = ::connect(fd_.get(), as_sockaddr(to), to.size) == 0;
  }
  explicit RawTcp(Fd fd) : fd_(std::move(fd)), connected_(fd_.valid()) {}

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  Endpoint local() const { return local_endpoint(fd_.get()); }
  void close() { fd_ = Fd(); }
  void shut_down(int how) { ::shutdown(fd_.get(), how); }

  /// False: the other side is gone.
  bool send(const std::vector<uint8_t>& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n < 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  /// Sends, and waits until the other side's kernel has it all.
  bool deliver(const std::vector<uint8_t>& bytes) {
    int left = send(bytes) ? 1 : -1;
    while (left > 0 && ::ioctl(fd_.get(), SIOCOUTQ, &left) == 0) continue;
    return left == 0;
  }
  /// So many bytes; fewer if the other side closes, or for a minute sends none.
  std::vector<uint8_t> receive(size_t size) {
    std::vector<uint8_t> bytes(size);
    size_t got = 0;
    while (got < size && readable(60000)) {
      const ssize_t n = ::recv(fd_.get(), bytes.data() + got, size - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }
  /// Deaf: packets do not reach it, as in an outage of the network, nor does its kernel acknowledge any.
  void set_deaf(bool deaf) { set_deaf(fd_.get(), deaf); }
  static void set_deaf(int fd, bool deaf) {
    sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog filter{1, &nothing};
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, deaf ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &filter, sizeof filter), 0);
  }
  Endpoint peer() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
    return endpoint_of(reinterpret_cast<const sockaddr*>(&address));
  }
  /// Whether the other side has closed, or reset, by now.
  bool is_over() {
    uint8_t byte = 0;
    const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }
  bool readable(int timeout_ms) {
    pollfd polled{fd_.get(), POLLIN, 0};
    return ::poll(&polled, 1, timeout_ms) > 0;
  }

 private:
  Fd fd_;
  bool connected_ = false;
};

/// Listens; accepts one after the other, waiting.
class RawTcpListener {
 public:
  explicit RawTcpListener(const Endpoint& at) : fd_(::socket(family_of(at), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    EXPECT_EQ(::bind(fd_.get(), as_sockaddr(at), at.size), 0) << to_string(at);
    EXPECT_EQ(::listen(fd_.get(), 64), 0);
  }
  Endpoint at() const { return with_carrier(local_endpoint(fd_.get()), Carrier::kTcp); }
  RawTcp accept() { return RawTcp(Fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC))); }

 private:
  Fd fd_;
};

}  // namespace switchml
