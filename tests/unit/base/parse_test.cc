#include "base/parse.h"

#include <gtest/gtest.h>

#include "temporary_file.h"

namespace switchml {
namespace {

TEST(Parse, IntegersAreWholeTextsWithinTheirBounds) {
  EXPECT_EQ(parse_integer("0", 0, 5), 0);
  EXPECT_EQ(parse_integer("5", 0, 5), 5);
  EXPECT_EQ(parse_integer("999999999999999999", 0, 999999999999999999), 999999999999999999);
  for (const char* const text : {"", "6", "-1", "+1", " 1", "1 ", "1x", "0x1", "1.0", "1000000000000000000"}) {
    EXPECT_FALSE(parse_integer(text, 0, 5).has_value()) << text;
  }
}

TEST(Parse, FilesAreReadWhole) {
  const TemporaryFile file("two\nlines");
  EXPECT_EQ(read_text_file(file.path()), "two\nlines");
  EXPECT_EQ(read_text_file("/nonexistent"), "");
}

}  // namespace
}  // namespace switchml
