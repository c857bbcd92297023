#include "session/payload.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace switchml {
namespace {

TEST(Payload, RoundsDownToAllowedSizes) {
  const std::pair<size_t, size_t> cases[] = {{255, 0},    {256, 256},   {511, 256},   {512, 512},
                                             {1023, 512}, {1024, 1024}, {9000, 8192}, {65000, 64512}};
  for (const auto& [bytes, rounded] : cases) EXPECT_EQ(round_payload(bytes), rounded) << bytes;
}

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
