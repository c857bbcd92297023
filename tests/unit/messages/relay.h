// A host on the path of connections to a rank: it carries, notes and changes what goes to its door.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "socket/address.h"
#include "socket/endpoint.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml::testing {

class Relay {
 public:
  /// Carries connections to `door` on. `change` may change what has come to the door, from byte `at` of its connection
  /// on.
  using Change = std::function<void(std::string* bytes, size_t at)>;
  Relay(const Endpoint& door, Change change) : door_(door), change_(std::move(change)) {
    auto listener = listen_tcp(literal_address("127.0.0.1", 0).value());
    EXPECT_TRUE(listener.ok());
    listener_ = std::move(listener.value());
  }
  Endpoint address() const { return local_endpoint(listener_.get()); }

  void step() {
    Endpoint from;
    if (Fd fd = accept_tcp(listener_.get(), &from); fd.valid()) pairs_.push_back({std::move(fd), connected(), {}});
    for (Pair& pair : pairs_) {
      std::string bytes;
      if (carry(pair.outer, pair.inner, &bytes)) {
        change_(&bytes, pair.carried.size());
        pair.carried += bytes;
        put(pair.inner, bytes);
      }
      if (carry(pair.inner, pair.outer, &bytes)) put(pair.outer, bytes);
    }
  }
  /// All that went to the door over its first connection.
  const std::string& carried() const { return pairs_.front().carried; }
  /// Another connection to the door.
  Fd connected() const {
    Endpoint source;
    int error = 0;
    Fd fd = connect_tcp({}, door_, &source, &error);
    EXPECT_TRUE(fd.valid());
    pollfd polled{fd.get(), POLLOUT, 0};
    ::poll(&polled, 1, 60'000);
    return fd;
  }
  static void put(const Fd& to, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      pollfd polled{to.get(), POLLOUT, 0};
      ::poll(&polled, 1, 60'000);
      const ssize_t taken = ::send(to.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (taken < 0) return;
      sent += static_cast<size_t>(taken);
    }
  }

 private:
  struct Pair {
    Fd outer, inner;
    std::string carried;
  };
  /// True: something has come, no more than the kernel's buffers take at once.
  static bool carry(Fd& from, Fd& to, std::string* bytes) {
    bytes->resize(16 * 1024);
    const ssize_t got = from.valid() ? ::recv(from.get(), bytes->data(), bytes->size(), MSG_DONTWAIT) : -1;
    bytes->resize(got > 0 ? static_cast<size_t>(got) : 0);
    if (got == 0 && to.valid()) ::shutdown(to.get(), SHUT_WR);
    return got > 0;
  }

  const Endpoint door_;
  const Change change_;
  Fd listener_;
  std::vector<Pair> pairs_;
};

}  // namespace switchml::testing
