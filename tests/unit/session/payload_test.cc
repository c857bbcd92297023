#include "session/payload.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace switchml {
namespace {

TEST(Payload, AutoTakesWhatThePathCarries) {
  EXPECT_EQ(auto_payload(1472), 1024U);  // Ethernet
  EXPECT_EQ(auto_payload(8972), 8192U);  // jumbo frames
  EXPECT_EQ(auto_payload(8192 + 20), 8192U);
  EXPECT_EQ(auto_payload(8192 + 19), 7168U);  // the header needs room too
  EXPECT_EQ(auto_payload(65507), kLoopbackPayloadBytes);
  EXPECT_EQ(auto_payload(0), kLeastAutoPayloadBytes);
  EXPECT_EQ(auto_payload(500), kLeastAutoPayloadBytes);
}

}  // namespace
}  // namespace switchml
