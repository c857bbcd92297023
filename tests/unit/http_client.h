// Asks an HTTP server, or begins to.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "socket/address.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"

namespace switchml {

class HttpClient {
 public:
  explicit HttpClient(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Endpoint to = literal_address(address, 0).value();
    EXPECT_EQ(::connect(fd_.get(), as_sockaddr(to), to.size), 0);
  }
  /// The other side may be gone.
  void say(const std::string& text) { ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL); }
  /// All that comes until the other side ends.
  std::string answer() {
    std::string text;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(fd_.get(), bytes, sizeof bytes, 0)) > 0;)
      text.append(bytes, static_cast<size_t>(n));
    return text;
  }

 private:
  Fd fd_;
};

inline std::string http_get(const std::string& address, const std::string& path) {
  HttpClient client(address);
  client.say("GET " + path + " HTTP/1.0\r\n\r\n");
  return client.answer();
}

}  // namespace switchml
