#include "session/links.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

Links links_to(size_t switches) {
  Links links;
  for (size_t i = 0; i < switches; ++i) {
    SwitchAddress at;
    at.endpoint = literal_address("127.0.0.1", static_cast<uint16_t>(1000 + i)).value();
    at.name = "s" + std::to_string(i);
    links.switches.push_back(at);
  }
  return links;
}

TEST(Links, AreOneForEachSwitchAndShard) {
  Links links = links_to(3);
  Config config;
  config.shards = 2;
  const Status status = links.connect(config, 0, Carrier::kPackets);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(links.transports.size(), 6U);
  EXPECT_EQ(links.own_shards(), 2U);
  EXPECT_EQ(&links.link(2, 1), links.transports[5].get());
  ASSERT_TRUE(links.connect(config, 0, Carrier::kTcp).ok());
  EXPECT_EQ(links.carrier(), Carrier::kTcp);
  for (const Endpoint& at : links.endpoints()) EXPECT_EQ(at.carrier, Carrier::kTcp);
}

TEST(Links, AreNamedAsTheirSwitchesAre) {
  EXPECT_EQ(links_to(1).names(), "switch s0");
  EXPECT_EQ(links_to(3).names(), "3 aggregators");
}

}  // namespace
}  // namespace switchml
