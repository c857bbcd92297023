#include "controllerd/port_message.h"

#include <gtest/gtest.h>

#include "socket/address.h"

namespace switchml {
namespace {

TEST(Places, GoThereAndBack) {
  v1::SwitchPlace message;
  message.set_address("10.0.0.1:4000");
  message.set_mac("02:00:00:00:00:07");
  message.set_port(9);
  const auto place = switch_port_of(message);
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(to_string(place.value().endpoint), "10.0.0.1:4000");
  EXPECT_EQ(place.value().mac, "02:00:00:00:00:07");
  EXPECT_EQ(place.value().port, 9U);
  EXPECT_EQ(message_of(place.value()).SerializeAsString(), message.SerializeAsString());
}

TEST(Places, NeedALiteralAddressWithAPort) {
  v1::SwitchPlace message;
  for (const char* const bad : {"", "somewhere:9", "10.0.0.1", "10.0.0.1:0"}) {
    message.set_address(bad);
    const auto place = switch_port_of(message);
    ASSERT_FALSE(place.ok()) << bad;
    EXPECT_NE(place.status().message().find(std::string("\"") + bad + "\""), std::string::npos);
  }
}

}  // namespace
}  // namespace switchml
