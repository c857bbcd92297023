#include "session/host_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "socket/address.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// What the only rank of a host says.
struct Host {
  std::string candidates;
  std::string sources = "";
  std::string store_at = "";
  std::string identity = "";  // empty: of a machine of its own
  std::string interface = "";
};

Result<std::vector<Endpoint>> choose(const std::vector<Host>& hosts) {
  std::vector<Blob> hellos;
  std::vector<std::string> identities;
  for (const Host& host : hosts) {
    identities.push_back(host.identity.empty() ? "machine-" + std::to_string(hellos.size()) + "/1" : host.identity);
    Blob hello;
    hello.set("host", identities.back());
    hello.set("candidates", host.candidates);
    hello.set("sources", host.sources);
    hello.set("store_at", host.store_at);
    hello.set("interface", host.interface);
    hellos.push_back(hello);
  }
  return choose_host_addresses(HostLayout::of(identities), hellos);
}

std::string chosen(const std::vector<Host>& hosts) {
  const auto found = choose(hosts);
  if (!found.ok()) return found.status().to_string();
  std::string text;
  for (const Endpoint& address : found.value()) text += (text.empty() ? "" : " ") + to_literal(address);
  return text;
}

TEST(HostAddresses, TheSourceTowardsTheStoresHostCounts) {
  EXPECT_EQ(chosen({{"172.17.0.1 10.0.0.1", "10.0.0.1", "10.0.0.1"}, {"172.17.0.1 10.0.0.2", "10.0.0.2", "10.0.0.1"}}),
            "10.0.0.1 10.0.0.2");
}

TEST(HostAddresses, TheStoresHostHasTheAddressThatOthersSee) {  // its own name resolves to 127.0.1.1
  EXPECT_EQ(chosen({{"172.17.0.1 10.0.0.1 fd00::1"}, {"10.0.0.2", "10.0.0.2", "10.0.0.1"}}), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(chosen({{"10.0.0.1 10.9.0.1"}, {"10.9.0.2", "10.9.0.2", "10.9.0.1"}}), "10.9.0.1 10.9.0.2");
}

TEST(HostAddresses, WithoutAStoresHostAddressesThatAllHaveAreLeftOut) {
  EXPECT_EQ(chosen({{"10.0.2.15 192.168.56.3"}, {"10.0.2.15 192.168.56.4"}}), "192.168.56.3 192.168.56.4");
  EXPECT_EQ(chosen({{"10.0.0.1 10.0.0.9"}, {"10.0.0.2"}}), "10.0.0.1 10.0.0.2") << "the preferred one";
}

TEST(HostAddresses, AllAreOfOneFamily) {
  EXPECT_EQ(chosen({{"10.0.0.1 fd00::1", "10.0.0.1", "10.0.0.1"}, {"fd00::2", "", ""}}), "fd00::1 fd00::2");
  EXPECT_EQ(chosen({{"10.0.0.1 fd00::1"}, {"10.0.0.2 fd00::2"}}), "10.0.0.1 10.0.0.2") << "IPv4 where all have both";
  EXPECT_EQ(chosen({{"10.0.2.15 fd00::1", "fd00::1"}, {"10.0.2.15 fd00::2", "fd00::2"}}), "fd00::1 fd00::2")
      << "by which all reach the store";
  EXPECT_EQ(chosen({{"10.0.2.15 fd00::1"}, {"10.0.2.15 fd00::2"}}), "fd00::1 fd00::2") << "where they differ";
}

TEST(HostAddresses, WhatIsMissingIsSaid) {
  EXPECT_THAT(chosen({{"10.0.0.1"}, {"fd00::2", "", "", "", "eth1"}, {""}}),
              AllOf(HasSubstr("no family of addresses in common"), HasSubstr("rank 0 has 10.0.0.1;"),
                    HasSubstr("rank 1 has fd00::2 on SWITCHML_INTERFACE=eth1;"),
                    HasSubstr("rank 2 has none but loopback and link-local ones"), HasSubstr("Give each host")));
  EXPECT_EQ(choose({{"10.0.0.1"}, {"fd00::2"}}).status().code(), Code::kUnavailable);
}

TEST(HostAddresses, TwoHostsWithOneAddressAreNamed) {
  const Host twin{"10.0.2.15", "10.0.2.15"};
  EXPECT_THAT(chosen({{"10.0.0.1", "10.0.0.1"}, twin, twin}),
              AllOf(HasSubstr("rank 1, rank 2 are on different hosts"), HasSubstr("10.0.2.15"),
                    HasSubstr("SWITCHML_INTERFACE"), Not(HasSubstr("rank 0"))));
  EXPECT_EQ(choose({twin, twin}).status().code(), Code::kUnavailable);
}

TEST(HostAddresses, RanksWhoseHostsCannotBeToldApartMayShareOne) {
  const Host one{"10.0.0.1", "10.0.0.1", "", "unknown/a/7"}, two{"10.0.0.1", "10.0.0.1", "", "unknown/a/8"};
  EXPECT_EQ(chosen({one, two}), "10.0.0.1 10.0.0.1");
}

TEST(HostAddresses, WhatIsNoAddressIsPassedOver) {
  EXPECT_EQ(chosen({{"nonsense 10.0.0.1"}, {"10.0.0.2 ::::", "?"}}), "10.0.0.1 10.0.0.2");
}

TEST(HostAddresses, ARankSaysWhatItsHostHas) {
  const auto hello = [](const std::string& interface, const std::string& store_host) {
    Config config;
    config.interface = interface;
    Blob blob;
    write_host_addresses(config, store_host, &blob);
    return blob;
  };
  EXPECT_EQ(hello("", "").text("sources"), "");
  EXPECT_EQ(hello("", "localhost").text("sources"), "") << "nobody else reaches loopback";
  EXPECT_EQ(hello("", "no-such-host.invalid").text("store_at"), "");
  EXPECT_THAT(hello("", "").text("candidates"), Not(HasSubstr("127.0.0.1")));
  EXPECT_THAT(hello("lo", "").text("candidates"), HasSubstr("127.0.0.1")) << "it was asked for";
  EXPECT_EQ(hello("lo", "").text("sources"), hello("lo", "").text("candidates"));
  const Endpoint own = announced_address("").value();
  if (is_loopback(own)) GTEST_SKIP() << "this machine has no address but loopback";
  EXPECT_EQ(hello("", to_literal(own)).text("sources"), to_literal(own));
  EXPECT_EQ(hello("", to_literal(own)).text("store_at"), to_literal(own));
}

}  // namespace
}  // namespace switchml
