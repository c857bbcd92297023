#include "session/switch_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/control_client.h"
#include "session/switch_entry.h"
#include "transport/address.h"
#include "transport/sockaddr.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Config naming(const std::string& address) {
  Config config;
  config.switch_address = address;
  return config;
}

TEST(SwitchPlace, ANamedSwitchIsWhereTheUserSays) {
  const auto places = named_switches(naming("10.1.2.3:4567"), false);
  ASSERT_TRUE(places.ok()) << places.status().message();
  ASSERT_EQ(places->size(), 1U);
  EXPECT_EQ(to_string(places->front().endpoint), "10.1.2.3:4567");
  EXPECT_EQ(places->front().name, "10.1.2.3:4567");
  EXPECT_EQ(places->front().client_key, 0U);
}

TEST(SwitchPlace, AnAddressWhereNothingCanListenIsRefused) {
  for (const char* address : {"10.1.2.3:0", "10.1.2.3:port"}) {
    const auto place = named_switches(naming(address), false);
    EXPECT_EQ(place.status().code(), Code::kInvalidArgument) << address;
    EXPECT_THAT(place.status().message(), HasSubstr("SWITCHML_SWITCH=\"" + std::string(address) + "\""));
  }
}

TEST(SwitchPlace, LoopbackServesOneHostOnly) {
  EXPECT_TRUE(named_switches(naming("127.0.0.1:4567"), true).ok());
  const auto place = named_switches(naming("127.0.0.1:4567"), false);
  EXPECT_EQ(place.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(place.status().message(), AllOf(HasSubstr("loopback"), HasSubstr("several hosts")));
}

TEST(SwitchPlace, AnEmbeddedSwitchServesNobodyButItsGroup) {
  std::unique_ptr<SwitchServer> server;
  ASSERT_TRUE(embedded_switch({}, true, "group g", 3, &server).ok());
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

TEST(SwitchPlace, AnEmbeddedSwitchListensWhereItSays) {
  std::unique_ptr<SwitchServer> server;
  const auto place = embedded_switch({}, true, "group g", 3, &server);
  ASSERT_TRUE(place.ok()) << place.status().message();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(place->endpoint, server->local());
  EXPECT_THAT(place->name, AllOf(StartsWith("127.0.0.1:"), EndsWith(" (embedded in rank 3 of group g)")));
  EXPECT_NE(port_of(server->local()), 0);
}

TEST(SwitchPlace, AnInterfaceThatIsNotThereIsNamed) {
  Config config;
  config.interface = "no-such-interface0";
  std::unique_ptr<SwitchServer> server;
  const auto place = embedded_switch(config, false, "group g", 0, &server);
  EXPECT_FALSE(place.ok());
  EXPECT_THAT(place.status().message(), HasSubstr("no-such-interface0"));
  EXPECT_EQ(server, nullptr);
  EXPECT_FALSE(address_of_rank_0(config, false).ok());
  EXPECT_TRUE(address_of_rank_0(config, true).ok());
}

TEST(SwitchPlace, FewSlotsHaveARemedy) {
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
