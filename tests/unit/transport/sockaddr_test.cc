#include "socket/sockaddr.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "socket/fd.h"

namespace switchml {
namespace {

sockaddr_in v4(const char* text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, text, &address.sin_addr), 1);
  return address;
}
sockaddr_in6 v6(const char* text, uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
  return address;
}

TEST(Sockaddr, AddressesSurviveTheWayThere) {
  const sockaddr_in four = v4("192.0.2.7", 4711);
  const Endpoint endpoint = to_endpoint(four);
  EXPECT_EQ(endpoint.size, sizeof four);
  EXPECT_EQ(family_of(endpoint), AF_INET);
  const auto back = load_sockaddr<sockaddr_in>(endpoint);
  EXPECT_EQ(std::memcmp(&back, &four, sizeof four), 0);
  EXPECT_EQ(std::memcmp(as_sockaddr(endpoint), &four, sizeof four), 0);

  sockaddr_in6 six = v6("2001:db8::7", 4711);
  six.sin6_scope_id = 3;
  const Endpoint other = to_endpoint(six);
  EXPECT_EQ(family_of(other), AF_INET6);
  EXPECT_EQ(load_sockaddr<sockaddr_in6>(other).sin6_scope_id, 3U);
}

TEST(Sockaddr, WhatIsNoSocketAddressHasNoFamily) {
  EXPECT_EQ(family_of(Endpoint{}), AF_UNSPEC);
  Endpoint endpoint = to_endpoint(v4("127.0.0.1", 1));
  endpoint.size = 1;  // shorter than a family
  EXPECT_EQ(family_of(endpoint), AF_UNSPEC);
  endpoint.size = sizeof(sockaddr_in) - 1;
  EXPECT_EQ(family_of(endpoint), AF_UNSPEC);
  endpoint.size = sizeof(sockaddr_in6);  // the length of the other family
  EXPECT_EQ(family_of(endpoint), AF_UNSPEC);
  sockaddr_in unix_like = v4("127.0.0.1", 1);
  unix_like.sin_family = AF_UNIX;
  EXPECT_EQ(family_of(to_endpoint(unix_like)), AF_UNSPEC);
}

// As the kernel gives it: in room for any address.
template <typename T>
Endpoint from_storage(const T& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &address, sizeof address);
  return endpoint_of(reinterpret_cast<const sockaddr*>(&storage));
}

TEST(Sockaddr, EndpointOfEitherFamily) {
  const sockaddr_in four = v4("127.0.0.1", 80);
  const sockaddr_in6 six = v6("::1", 80);
  EXPECT_TRUE(from_storage(four) == to_endpoint(four));
  EXPECT_TRUE(from_storage(six) == to_endpoint(six));
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(from_storage(other).size, 0U);
}

TEST(Sockaddr, TheWildcardIsOneWhateverThePort) {
  for (const int family : {AF_INET, AF_INET6}) {
    EXPECT_EQ(family_of(any_endpoint(family)), family);
    EXPECT_TRUE(is_any(any_endpoint(family)));
  }
  EXPECT_TRUE(is_any(to_endpoint(v4("0.0.0.0", 999))));
  EXPECT_TRUE(is_any(to_endpoint(v6("::", 999))));
  EXPECT_FALSE(is_any(to_endpoint(v4("0.0.0.1", 0))));
  EXPECT_FALSE(is_any(to_endpoint(v6("::1", 0))));
  EXPECT_FALSE(is_any(Endpoint{}));
}

TEST(Sockaddr, LocalEndpointIsWhatTheKernelSays) {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM, 0));
  ASSERT_TRUE(fd.valid());
  const Endpoint wanted = to_endpoint(v4("127.0.0.1", 0));
  ASSERT_EQ(::bind(fd.get(), as_sockaddr(wanted), wanted.size), 0);
  const Endpoint bound = local_endpoint(fd.get());
  ASSERT_EQ(family_of(bound), AF_INET);
  EXPECT_EQ(load_sockaddr<sockaddr_in>(bound).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_NE(load_sockaddr<sockaddr_in>(bound).sin_port, 0);
  EXPECT_EQ(local_endpoint(-1).size, 0U);
}

}  // namespace
}  // namespace switchml
