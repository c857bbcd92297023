#include "client/switch_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "client/control_client.h"
#include "client/switch_entry.h"
#include "socket/address.h"
#include "socket/sockaddr.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Config naming(const std::string& address) {
  Config config;
  config.switch_address = address;
  return config;
}

TEST(SwitchAddress, ANamedSwitchIsWhereTheUserSays) {
  const auto places = named_switches(naming("10.1.2.3:4567"), false);
  ASSERT_TRUE(places.ok()) << places.status().message();
  ASSERT_EQ(places->size(), 1U);
  EXPECT_EQ(to_string(places->front().endpoint), "10.1.2.3:4567");
  EXPECT_EQ(places->front().name, "10.1.2.3:4567");
  EXPECT_EQ(places->front().client_key, 0U);
}

TEST(SwitchAddress, AnAddressWhereNothingCanListenIsRefused) {
  for (const char* address : {"10.1.2.3:0", "10.1.2.3:port"}) {
    const auto place = named_switches(naming(address), false);
    EXPECT_EQ(place.status().code(), Code::kInvalidArgument) << address;
    EXPECT_THAT(place.status().message(), HasSubstr("SWITCHML_SWITCH=\"" + std::string(address) + "\""));
  }
}

TEST(SwitchAddress, ALinkLocalAddressIsRefused) {
  for (const char* address : {"[fe80::1]:4567", "[fe80::1%lo]:4567"}) {
    const auto place = named_switches(naming(address), true);
    EXPECT_EQ(place.status().code(), Code::kInvalidArgument) << address;
    EXPECT_EQ(place.status().message(), "SWITCHML_SWITCH=\"" + std::string(address) + "\" has " + address +
                                            ", a link-local address: give one that is the same on all hosts");
  }
}

TEST(SwitchAddress, AnAddressOfNoHostIsRefused) {
  for (const char* address : {"224.0.0.1:4567", "255.255.255.255:4567"}) {
    const auto place = named_switches(naming(address), true);
    EXPECT_EQ(place.status().code(), Code::kInvalidArgument) << address;
    EXPECT_EQ(place.status().message(), "SWITCHML_SWITCH=\"" + std::string(address) + "\" has " + address +
                                            ", to which no host answers: give the address of one");
  }
}

TEST(SwitchAddress, LoopbackServesOneHostOnly) {
  EXPECT_TRUE(named_switches(naming("127.0.0.1:4567"), true).ok());
  const auto place = named_switches(naming("127.0.0.1:4567"), false);
  EXPECT_EQ(place.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(place.status().message(), AllOf(HasSubstr("loopback"), HasSubstr("several hosts")));
}

// ---- several ----

std::vector<std::string> places_of(const std::string& text) {
  const auto places = named_switches(naming(text), false);
  if (!places.ok()) return {places.status().to_string()};
  std::vector<std::string> said;
  for (const SwitchAddress& place : *places.operator->()) {
    EXPECT_EQ(place.client_key, 0U);
    said.push_back(to_string(place.endpoint) + " * " + std::to_string(place.weight) + " as " + place.name);
  }
  return said;
}

TEST(SwitchAddress, SeveralAreNamedWithCommasAndWeights) {
  EXPECT_THAT(places_of("10.1.2.3:4567,10.1.2.4:4567*3"),
              ElementsAre("10.1.2.3:4567 * 1 as 10.1.2.3:4567", "10.1.2.4:4567 * 3 as 10.1.2.4:4567"));
  EXPECT_THAT(places_of("10.1.2.3:4567*1000"), ElementsAre("10.1.2.3:4567 * 1000 as 10.1.2.3:4567"));
  EXPECT_THAT(places_of("10.1.2.3*2,10.1.2.3:1"),
              ElementsAre("10.1.2.3:48879 * 2 as 10.1.2.3", "10.1.2.3:1 * 1 as 10.1.2.3:1"));
  EXPECT_THAT(places_of("[fd00::1]:5*7,[fd00::2]:5"),
              ElementsAre("[fd00::1]:5 * 7 as [fd00::1]:5", "[fd00::2]:5 * 1 as [fd00::2]:5"));
}

/// Its message quotes the whole setting, and has this part.
void expect_refused(const Config& config, const std::string& part) {
  const Status status = named_switches(config, false).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << config.switch_address;
  EXPECT_THAT(status.message(),
              AllOf(StartsWith("SWITCHML_SWITCH=\"" + config.switch_address + "\" "), HasSubstr(part)));
}

TEST(SwitchAddress, AnotherFormIsRefused) {
  expect_refused(naming("10.1.2.4:4567,10.1.2.3:4567*1001"),
                 "is not allowed: use ADDRESS:PORT or ADDRESS, no wildcard");
  expect_refused(naming("10.1.2.3:1,127.0.0.1:1"), "is a loopback address");
}

TEST(SwitchAddress, OneAddressIsOneSwitch) {
  expect_refused(naming("10.1.2.3:1,10.1.2.4:1,10.1.2.3:1*2"), "names 10.1.2.3:1 twice");
  expect_refused(naming("10.1.2.3:48879,10.1.2.3"), "names 10.1.2.3 twice");
  expect_refused(naming("[fd00::1]:5,[fd00:0:0::1]:5"), "names [fd00:0:0::1]:5 twice");
}

TEST(SwitchAddress, OneSocketCannotReachTwoFamilies) {
  expect_refused(naming("10.1.2.3:1,[fd00::1]:1"), "IPv4 and of IPv6");
  expect_refused(naming("[fd00::1]:1,[fd00::2]:1,10.1.2.3:1"), "IPv4 and of IPv6");
}

std::string so_many_switches(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "10.1.2.3:" : ",10.1.2.3:") + std::to_string(5000 + i);
  return text;
}

TEST(SwitchAddress, UpTo128AreTaken) {
  EXPECT_EQ(places_of(so_many_switches(128)).size(), 128U);
  expect_refused(naming(so_many_switches(129)), "names 129 switches: allowed are up to 128");
}

TEST(SwitchAddress, SeveralNeitherAddIntegersNorAreReplaced) {
  const std::vector<std::function<void(Config*)>> changes = {
      [](Config* config) { config->precision = Precision::kInteger; },
      [](Config* config) { config->fallback = true; },
      [](Config* config) { config->controller = "10.1.2.9:1"; },
  };
  EXPECT_TRUE(wants_exact(Config()));
  for (const auto& change : changes) {
    Config config = naming("10.1.2.3:1,10.1.2.4:1");
    change(&config);
    EXPECT_EQ(wants_exact(config), config.fallback);
    expect_refused(config, "several switches, which neither add integers nor are replaced when one is lost");
    config.switch_address = "10.1.2.3:1*5";
    EXPECT_TRUE(named_switches(config, false).ok());
  }
}

// ---- what ranks tell each other ----

SwitchAddress a_place(const std::string& address) {
  SwitchAddress place;
  place.endpoint = literal_address(address, 0).value();
  place.name = "rack7:5 = \"mine\"";
  place.weight = 1000;
  place.client_key = UINT64_MAX;
  return place;
}

TEST(SwitchAddress, OtherRanksReadWhatOneHasWritten) {
  for (const char* address : {"10.1.2.3:4567", "[fd00::1]:65535"}) {
    const SwitchAddress place = a_place(address);
    Blob one, all;
    write_switch_address(place, &one);
    all.put("switch/0", one);
    const auto read = read_switch_address(Blob::parse(all.encode()).value().inner("switch/0"));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->endpoint, place.endpoint);
    EXPECT_EQ(read->name, place.name);
    EXPECT_EQ(read->weight, place.weight);
    EXPECT_EQ(read->client_key, place.client_key);
  }
}

TEST(SwitchAddress, TheMostSwitchesWithTheLongestNamesFitABlob) {
  Blob all;
  for (int i = 0; i < kMaxWorkers; ++i) {
    SwitchAddress place = a_place("[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
    place.name = std::string(253, 'x') + ":65535";
    Blob one;
    write_switch_address(place, &one);
    all.put("switch/" + std::to_string(i), one);
  }
  EXPECT_TRUE(Blob::parse(all.encode()).ok());
}

TEST(SwitchAddress, WhatIsNoPlaceIsAMismatch) {
  struct Case {
    const char* key;
    std::vector<const char*> values;
  };
  const Case cases[] = {
      {"address", {"", "rack7:5", "10.1.2.3", "10.1.2.3:0", "10.1.2.3:65536", "none", "\xff:1"}},
      {"weight", {"", "0", "1001", "-1", "x", "18446744073709551616"}},
      {"client_key", {"", "-1", "x", "18446744073709551616"}},
  };
  for (const Case& c : cases) {
    for (const char* value : c.values) {
      Blob blob;
      write_switch_address(a_place("10.1.2.3:4567"), &blob);
      blob.set(c.key, value);
      const auto place = read_switch_address(blob);
      EXPECT_EQ(place.status().code(), Code::kMismatch) << c.key << " " << value;
      EXPECT_THAT(place.status().message(), HasSubstr("same switchml on all ranks"));
    }
  }
  EXPECT_EQ(read_switch_address(Blob()).status().code(), Code::kMismatch);
}

TEST(SwitchAddress, AnEmbeddedSwitchServesNobodyButItsGroup) {
  std::unique_ptr<SwitchServer> server;
  ASSERT_TRUE(embedded_switch({}, literal_address("127.0.0.1", 0).value(), true, {}, "group g", 3, &server).ok());
  auto link = connect_to_switch(server->local());
  ASSERT_TRUE(link.ok()) << link.status().to_string();
  ControlClient client(*link.value(), server->local(), "embedded");
  const size_t memory = server->memory_bytes();
  wire::Open asked;
  asked.workers = asked.shards = 1;
  asked.payload = 64512;
  for (asked.client_key = 0; asked.client_key < 20; ++asked.client_key) {
    const Status refused = client.open(asked, monotonic_now() + seconds(20)).status();
    EXPECT_NE(refused.message().find("serves another group"), std::string::npos) << refused.to_string();
  }
  EXPECT_EQ(server->counters().sessions_opened.get(), 0U);
  EXPECT_EQ(server->memory_bytes(), memory);
  for (const uint64_t key : {77, 78}) {  // one after the other, as where another payload or more slots are tried
    server->invite(key);
    asked.client_key = key;
    for (int repeats = 0; repeats < 2; ++repeats) {
      const auto opened = client.open(asked, monotonic_now() + seconds(20));
      EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    }
  }
  EXPECT_EQ(server->counters().sessions_opened.get(), 2U);
  asked.client_key = 79;
  EXPECT_FALSE(client.open(asked, monotonic_now() + seconds(20)).ok());
}

TEST(SwitchAddress, AnEmbeddedSwitchListensWhereItSays) {
  std::unique_ptr<SwitchServer> server;
  const auto place = embedded_switch({}, literal_address("127.0.0.1", 0).value(), true, {}, "group g", 3, &server);
  ASSERT_TRUE(place.ok()) << place.status().message();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(place->endpoint, server->local());
  EXPECT_THAT(place->name, AllOf(StartsWith("127.0.0.1:"), EndsWith(" (embedded in rank 3 of group g)")));
  EXPECT_NE(port_of(server->local()), 0);
}

TEST(SwitchAddress, AnEmbeddedSwitchIsKnownByItsName) {
  EXPECT_TRUE(is_embedded("10.0.0.1:5 (embedded in rank 1 of group g)"));
  EXPECT_FALSE(is_embedded("10.0.0.1:5"));
}

TEST(SwitchAddress, FewSlotsHaveARemedy) {
  const auto advice = [](uint16_t shards, uint16_t slots, uint32_t payload, size_t queue_bytes) {
    wire::Open asked;
    asked.shards = shards;
    wire::OpenReply granted;
    granted.slots = slots;
    granted.payload = payload;
    return advice_on_slots(asked, granted, queue_bytes);
  };
  constexpr size_t kPlenty = 32 << 20;
  EXPECT_EQ(advice(1, 128, 1024, 212992), "");
  EXPECT_EQ(advice(1, 64, 1024, 212992), "") << "nobody would notice much";
  EXPECT_EQ(advice(1, 7, 64512, 212992), "") << "there are never many of such slots";
  EXPECT_EQ(advice(1, 12, 1024, kPlenty), "") << "it has what it wants";
  EXPECT_EQ(advice(4, 256, 1024, 1048576), "");
  EXPECT_NE(advice(4, 251, 1024, 1048576), "") << "too few for two streams";
  const std::string text = advice(1, 12, 1024, 212992);
  for (const char* part : {"only 12 slots", "208 KiB", "net.core.rmem_max=33554432", "CAP_NET_ADMIN"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace switchml
