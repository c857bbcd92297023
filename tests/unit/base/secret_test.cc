#include "base/secret.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(Secret, OnlyTheVerySameIsTheSame) {
  EXPECT_TRUE(same_secret("abcdef", "abcdef"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* const other : {"", "a", "abcde", "abcdeg", "bbcdef", "abcdefabcdef", "abcdefa", "ABCDEF"}) {
    EXPECT_FALSE(same_secret("abcdef", other)) << other;
  }
  EXPECT_FALSE(same_secret("", "a"));
  EXPECT_FALSE(same_secret("abab", "ab")) << "a secret that repeats itself";
  EXPECT_FALSE(same_secret("ab", "abab"));
}

}  // namespace
}  // namespace switchml
