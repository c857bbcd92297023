#include "path/payload.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace switchml {
namespace {

TEST(Payload, AutoTakesWhatThePathCarries) {
  EXPECT_EQ(auto_payload(1472), 1408U);  // Ethernet
  EXPECT_EQ(auto_payload(1452), 1408U);  // the same with IPv6
  EXPECT_EQ(auto_payload(1422), 1280U);  // VXLAN
  EXPECT_EQ(auto_payload(8972), 8192U);  // jumbo frames
  EXPECT_EQ(auto_payload(8192 + 24), 8192U);
  EXPECT_EQ(auto_payload(8192 + 23), 7168U);  // the longer header needs room too
  EXPECT_EQ(auto_payload(65507), kLoopbackPayloadBytes);
  EXPECT_EQ(auto_payload(1047), 512U);  // rather small packets than fragments
  EXPECT_EQ(auto_payload(280), 256U);
  EXPECT_EQ(auto_payload(279), kMinPayloadBytes);
  EXPECT_EQ(auto_payload(0), kMinPayloadBytes);
}

}  // namespace
}  // namespace switchml
