#include "session/switch_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const auto place = named_switch(naming("10.1.2.3:4567"), false);
  ASSERT_TRUE(place.ok()) << place.status().message();
  EXPECT_EQ(place->text("address"), "10.1.2.3:4567");
  EXPECT_EQ(place->text("name"), "10.1.2.3:4567");
}

TEST(SwitchPlace, AnAddressWhereNothingCanListenIsRefused) {
  for (const char* address : {"10.1.2.3:0", "10.1.2.3:port"}) {
    const auto place = named_switch(naming(address), false);
    EXPECT_EQ(place.status().code(), Code::kInvalidArgument) << address;
    EXPECT_THAT(place.status().message(), HasSubstr("SWITCHML_SWITCH=\"" + std::string(address) + "\""));
  }
}

TEST(SwitchPlace, LoopbackServesOneHostOnly) {
  EXPECT_TRUE(named_switch(naming("127.0.0.1:4567"), true).ok());
  const auto place = named_switch(naming("127.0.0.1:4567"), false);
  EXPECT_EQ(place.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(place.status().message(), AllOf(HasSubstr("loopback"), HasSubstr("several hosts")));
}

TEST(SwitchPlace, AnEmbeddedSwitchListensWhereItSays) {
  std::unique_ptr<SwitchServer> server;
  const auto place = embedded_switch({}, true, "group g", &server);
  ASSERT_TRUE(place.ok()) << place.status().message();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(place->text("address"), to_string(server->local()));
  EXPECT_THAT(place->text("name"), AllOf(StartsWith("127.0.0.1:"), EndsWith(" (embedded in rank 0 of group g)")));
  EXPECT_NE(port_of(server->local()), 0);
}

TEST(SwitchPlace, AnInterfaceThatIsNotThereIsNamed) {
  Config config;
  config.interface = "no-such-interface0";
  std::unique_ptr<SwitchServer> server;
  const auto place = embedded_switch(config, false, "group g", &server);
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
