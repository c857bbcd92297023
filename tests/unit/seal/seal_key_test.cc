#include "seal/seal_key.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(SealKey, OfDigitsAndBack) {
  const SealKey key = random_seal_key();
  EXPECT_EQ(to_hex(key).size(), 64u);
  const auto again = parse_seal_key(to_hex(key));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value(), key);
  EXPECT_NE(random_seal_key(), key);
}

TEST(SealKey, EitherCase) {
  const std::string lower(64, 'a'), upper(64, 'A');
  EXPECT_EQ(parse_seal_key(lower).value(), parse_seal_key(upper).value());
}

TEST(SealKey, ErrorsDoNotShowIt) {
  for (std::string text : {std::string(63, 'a'), std::string(65, 'a'), std::string(), std::string(63, 'b') + "g"}) {
    const auto key = parse_seal_key(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(key.status().message().find("aa"), std::string::npos);
    EXPECT_EQ(key.status().message().find("bb"), std::string::npos);
  }
}

}  // namespace
}  // namespace switchml
