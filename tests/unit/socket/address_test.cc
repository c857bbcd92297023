#include "socket/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "wire/layout.h"

namespace switchml {
namespace {

std::string round_trip(const std::string& text) {
  const auto result = resolve_address(text, "SWITCHML_SWITCH");
  return result.ok() ? to_string(result.value()) : result.status().to_string();
}

TEST(Address, ParsesWhatPeopleWrite) {
  EXPECT_EQ(round_trip("10.0.0.1:48000"), "10.0.0.1:48000");
  EXPECT_EQ(round_trip("10.0.0.1:0"), "10.0.0.1:0");
  EXPECT_EQ(round_trip("10.0.0.1:65535"), "10.0.0.1:65535");
  EXPECT_EQ(round_trip("[::1]:7"), "[::1]:7");
  EXPECT_EQ(round_trip("[2001:db8::5]:443"), "[2001:db8::5]:443");
  EXPECT_EQ(round_trip("[fe80::1%1]:7"), "[fe80::1%1]:7");
  EXPECT_EQ(round_trip("localhost:9"), "127.0.0.1:9");
}

TEST(Address, ThePortHasADefault) {
  EXPECT_EQ(round_trip("10.0.0.1"), "10.0.0.1:48879");
  EXPECT_EQ(round_trip("[::1]"), "[::1]:48879");
  EXPECT_EQ(round_trip("localhost"), "127.0.0.1:48879");
}

TEST(Address, IsASocketAddress) {
  const Endpoint endpoint = resolve_address("10.1.2.3:4660", "x").value();
  ASSERT_EQ(endpoint.size, sizeof(sockaddr_in));
  sockaddr_in address;
  std::memcpy(&address, endpoint.bytes, sizeof address);
  EXPECT_EQ(address.sin_family, AF_INET);
  EXPECT_EQ(address.sin_port, htons(4660));
  EXPECT_EQ(ntohl(address.sin_addr.s_addr), 0x0a010203U);
}

class BadAddress : public ::testing::TestWithParam<const char*> {};

TEST_P(BadAddress, IsAnErrorThatNamesSettingValueAndForm) {
  const std::string text = GetParam();
  const auto result = resolve_address(text, "SWITCHML_SWITCH");
  ASSERT_FALSE(result.ok());
  const std::string message = result.status().message();
  EXPECT_NE(message.find("SWITCHML_SWITCH=\"" + text + "\""), std::string::npos) << message;
  EXPECT_NE(message.find("allowed: ADDRESS:PORT"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, BadAddress,
                         ::testing::Values("", ":", ":80", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:99999999999999",
                                           "10.0.0.1:-1", "10.0.0.1:+1", "10.0.0.1: 1", "10.0.0.1:8a", "::1",
                                           "fe80::1:80", "[::1", "[::1]80", "[]:80", "[::1]:", "[::1]:x",
                                           "[10.0.0.1]:80", "::1]:80", "10.0.0.1:1:2", "300.0.0.1:1", "a b:1",
                                           "no-such-host.invalid:1"));

TEST(Address, ComparesAndChangesPorts) {
  const Endpoint a = resolve_address("10.0.0.1:5", "x").value();
  const Endpoint b = resolve_address("10.0.0.1:6", "x").value();
  const Endpoint c = resolve_address("10.0.0.2:5", "x").value();
  const Endpoint six = resolve_address("[::1]:5", "x").value();
  EXPECT_TRUE(same_address(a, b));
  EXPECT_NE(a, b);
  EXPECT_EQ(with_port(a, 6), b);
  EXPECT_EQ(port_of(with_port(six, 4660)), 4660);
  EXPECT_EQ(to_string(with_port(six, 4660)), "[::1]:4660");
  EXPECT_FALSE(same_address(a, c));
  EXPECT_FALSE(same_address(a, six));
  Endpoint noted = a;
  noted.via = 3;
  EXPECT_EQ(noted, a) << "where a frame arrived is not part of who sent it";
}

TEST(Address, TheCarrierIsPartOfWhoItIs) {
  for (const char* text : {"10.0.0.1:5", "[2001:db8::5]:5"}) {
    const Endpoint packets = resolve_address(text, "x").value();
    const Endpoint tcp = with_carrier(packets, Carrier::kTcp);
    const Endpoint accepted = with_carrier(packets, Carrier::kTcpAccepted);
    EXPECT_EQ(packets.carrier, Carrier::kPackets);
    EXPECT_NE(tcp, packets);
    EXPECT_NE(accepted, packets);
    EXPECT_NE(accepted, tcp);
    EXPECT_EQ(with_carrier(tcp, Carrier::kPackets), packets);
    EXPECT_EQ(with_port(tcp, 6), with_carrier(with_port(packets, 6), Carrier::kTcp));
    EXPECT_TRUE(same_address(tcp, packets));
    EXPECT_TRUE(same_address(packets, accepted));
    EXPECT_EQ(to_string(packets), text);
    EXPECT_EQ(to_string(tcp), std::string(text) + "/tcp");
    EXPECT_EQ(to_literal(tcp), to_literal(packets));
  }
}

TEST(Address, EndpointsThatAreNoSocketAddress) {
  EXPECT_EQ(to_string(Endpoint{}), "none");
  EXPECT_EQ(port_of(Endpoint{}), 0);
  Endpoint other;
  other.size = 3;
  other.bytes[2] = 0xab;
  EXPECT_EQ(to_string(other), "endpoint 0000ab");
  EXPECT_EQ(with_port(other, 9), other);
  EXPECT_FALSE(is_loopback(other));
  // A family without the bytes that belong to it.
  Endpoint truncated;
  truncated.bytes[0] = AF_INET6;
  truncated.size = 16;
  EXPECT_EQ(port_of(truncated), 0);
}

TEST(Address, KnowsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.255.0.9:1", "[::1]:1"}) {
    EXPECT_TRUE(is_loopback(resolve_address(text, "x").value())) << text;
  }
  for (const char* text : {"128.0.0.1:1", "10.0.0.1:1", "[::2]:1", "0.0.0.0:1"}) {
    EXPECT_FALSE(is_loopback(resolve_address(text, "x").value())) << text;
  }
}

TEST(Address, GivesIpv4AsANumber) {
  EXPECT_EQ(ipv4_of(resolve_address("10.0.0.1:5", "x").value()), 0x0a000001U);
  EXPECT_EQ(ipv4_of(resolve_address("[::1]:5", "x").value()), std::nullopt);
  EXPECT_EQ(ipv4_of(Endpoint()), std::nullopt);
}

TEST(Address, AnnouncesAnAddressOfThisHost) {
  const auto found = announced_address("");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(port_of(found.value()), 0);
  EXPECT_TRUE(found->size == sizeof(sockaddr_in) || found->size == sizeof(sockaddr_in6));
  const auto lo = announced_address("lo");
  ASSERT_TRUE(lo.ok()) << lo.status().to_string();
  EXPECT_TRUE(is_loopback(lo.value())) << to_string(lo.value());
  EXPECT_EQ(port_of(lo.value()), 0);
}

TEST(Address, AnUnknownInterfaceIsAnErrorThatNamesTheKnown) {
  const auto none = announced_address("nosuch0");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_NE(none.status().message().find("SWITCHML_INTERFACE=\"nosuch0\""), std::string::npos);
  EXPECT_NE(none.status().message().find("lo"), std::string::npos);
}

TEST(Address, LocalOnesEndWithLoopback) {
  const auto all = local_addresses("");
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(is_loopback(all.back()));
  bool seen_loopback = false;
  for (const Endpoint& address : all) {
    EXPECT_EQ(port_of(address), 0);
    EXPECT_FALSE(seen_loopback && !is_loopback(address)) << to_string(address);
    seen_loopback = seen_loopback || is_loopback(address);
    EXPECT_EQ(std::count(all.begin(), all.end(), address), 1) << to_string(address);
    EXPECT_EQ(to_literal(address).rfind("fe80", 0), std::string::npos) << "of a link only";
  }
  EXPECT_TRUE(is_loopback(local_addresses("lo").front())) << "the interface that was asked for comes first";
}

TEST(Address, LiteralsHaveNoPort) {
  EXPECT_EQ(to_literal(resolve_address("10.1.2.3:4", "test").value()), "10.1.2.3");
  EXPECT_EQ(to_literal(resolve_address("[2001:db8::5]:4", "test").value()), "2001:db8::5");
}

TEST(Address, TheHostIdentityIsStableAndSaysSomething) {
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_GE(host_identity().size(), 8U);
}

TEST(Address, LiteralsAreReadWithoutLookingUpNames) {
  const auto text = [](const std::string& written) {
    const auto address = literal_address(written, 7);
    return address.ok() ? to_string(address.value()) : "refused";
  };
  EXPECT_EQ(text("10.0.0.1"), "10.0.0.1:7");
  EXPECT_EQ(text("10.0.0.1:65535"), "10.0.0.1:65535");
  EXPECT_EQ(text("10.0.0.1:0"), "10.0.0.1:0");
  EXPECT_EQ(text("fe80::1"), "[fe80::1]:7");
  EXPECT_EQ(text("[fe80::1]:9"), "[fe80::1]:9");
  for (const char* const bad : {"", "localhost", "localhost:9", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:x", "10.0.0",
                                "[10.0.0.1]:9", "[fe80::1]", "[fe80::1", "[]:9", ":9", "10.0.0.1:9:9", " 10.0.0.1"}) {
    EXPECT_EQ(text(bad), "refused") << bad;
  }
  const std::string message = literal_address("localhost", 7).status().message();
  EXPECT_NE(message.find("\"localhost\""), std::string::npos);
  EXPECT_NE(message.find("[fe80::1]:48879"), std::string::npos) << "the allowed forms: " << message;
}

}  // namespace
}  // namespace switchml
