#include "base/payload_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/limits.h"

namespace switchml {
namespace {

TEST(PayloadSize, RoundsDownToAnAllowedSize) {
  const std::pair<size_t, size_t> cases[] = {
      {0, 0},       {255, 0},     {256, 256},     {511, 256},     {512, 512},     {1023, 512},      {1024, 1024},
      {1151, 1024}, {1152, 1152}, {1407, 1280},   {1408, 1408},   {1535, 1408},   {2047, 1920},     {2048, 2048},
      {3071, 2048}, {9000, 8192}, {64511, 63488}, {64512, 64512}, {65000, 64512}, {1 << 30, 64512}, {SIZE_MAX, 64512}};
  for (const auto& [bytes, allowed] : cases) EXPECT_EQ(allowed_payload(bytes), allowed) << bytes;
}

TEST(PayloadSize, OnlyAllowedSizesAreRead) {
  for (const size_t bytes : {size_t{256}, size_t{1024}, size_t{1408}, kMaxPayloadBytes}) {
    EXPECT_TRUE(is_allowed_payload(bytes)) << bytes;
    EXPECT_EQ(parse_payload_size(std::to_string(bytes)), bytes);
  }
  for (const size_t bytes : {size_t{0}, size_t{255}, size_t{1500}, size_t{2176}, kMaxPayloadBytes + 1024}) {
    EXPECT_FALSE(is_allowed_payload(bytes)) << bytes;
    EXPECT_EQ(parse_payload_size(std::to_string(bytes)), std::nullopt);
  }
  for (const char* text : {"", "auto", "-256", "8k", "99999999999999999999"}) {
    EXPECT_EQ(parse_payload_size(text), std::nullopt) << text;
  }
}

TEST(PayloadSize, MessagesNameTheLargest) {
  EXPECT_EQ(allowed_payloads(2048), "256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 2048");
  EXPECT_EQ(allowed_payloads(), "256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512");
}

TEST(PayloadSize, AllowedSizesStayAndNothingGrows) {
  size_t largest = 0;
  for (size_t bytes = 0; bytes < kMaxPayloadBytes + 2000; ++bytes) {
    const size_t allowed = allowed_payload(bytes);
    ASSERT_LE(allowed, bytes);
    ASSERT_EQ(allowed_payload(allowed), allowed) << bytes;
    ASSERT_GE(allowed, largest) << "more room must not give a smaller payload: " << bytes;
    ASSERT_EQ(allowed % 128, 0U) << bytes;
    largest = allowed;
  }
  EXPECT_EQ(largest, kMaxPayloadBytes);
}

}  // namespace
}  // namespace switchml
