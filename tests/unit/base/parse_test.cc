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

TEST(Parse, RealNumbersAreWholeTextsWithinTheirBounds) {
  EXPECT_EQ(parse_real("0.5", 0, 1), 0.5);
  EXPECT_EQ(parse_real("1e3", 0, 1000), 1000.0);
  EXPECT_EQ(parse_real("-2", -2, 0), -2.0);
  for (const char* const text : {"", "1.1", "-1", " 1", "1 ", "0x1", "nan", "inf", "1e999", "1e", "."}) {
    EXPECT_FALSE(parse_real(text, 0, 1).has_value()) << text;
  }
}

TEST(Parse, AHostAndAPortHaveAColonBetweenThem) {
  for (const char* const text : {"h:1", "h:65535", "[::1]:7", "10.0.0.1:48879"}) {
    EXPECT_TRUE(is_host_port(text, 1)) << text;
  }
  for (const char* const text : {"", "h", ":1", "h:", "h:0", "h:65536", "h:-1", "h:1x", "h:1 "}) {
    EXPECT_FALSE(is_host_port(text, 1)) << text;
  }
  EXPECT_TRUE(is_host_port("h:0", 0));
}

TEST(Parse, APeerIsNoWildcard) {
  for (const char* const text : {"h:1", "[::1]:7", "0.0.0.1:1"}) EXPECT_TRUE(is_peer(text)) << text;
  for (const char* const text : {"h", "h:0", "0.0.0.0:1", "[::]:1"}) EXPECT_FALSE(is_peer(text)) << text;
}

TEST(Parse, AnAddressMayHaveAPort) {
  for (const char* const text : {"h", "h:1", "10.0.0.1:65535", "[::1]", "[fe80::1%eth0]:7", "a-b.example"}) {
    EXPECT_TRUE(is_address(text)) << text;
  }
  for (const char* const text : {"", " ", "::1", "[::1", "[]", "[::1]7", ":1", "h:", "h:0", "h:99999", "h:1*2", "a b",
                                 "a,b", "0.0.0.0", "[::]:1"}) {
    EXPECT_FALSE(is_address(text)) << text;
  }
}

TEST(Parse, SwitchesHaveCommasBetweenThemAndWeights) {
  const auto switches = parse_switches("10.1.2.3:4567,h*1000,[fd00::1]:5*7");
  ASSERT_TRUE(switches && switches->size() == 3);
  EXPECT_EQ(switches->at(0).address, "10.1.2.3:4567");
  EXPECT_EQ(switches->at(0).weight, 1U);
  EXPECT_EQ(switches->at(1).address, "h");
  EXPECT_EQ(switches->at(1).weight, 1000U);
  EXPECT_EQ(switches->at(2).address, "[fd00::1]:5");
  for (const char* const weight : {"0", "1001", "x", "", "-1", "1.5", " 2", "2*3", "99999999999999999999"}) {
    EXPECT_FALSE(parse_switches(std::string("h:1*") + weight)) << weight;
  }
  for (const char* const text : {"", ",", "h:1,", ",h:1", "h:1,,i:1", "h:1,*3", "h:1,i:port", "h:0", "h,[::]:5"}) {
    EXPECT_FALSE(parse_switches(text)) << text;
  }
}

TEST(Parse, AListHasAnOrBeforeItsLast) {
  EXPECT_EQ(alternatives({"a"}), "a");
  EXPECT_EQ(alternatives({"a", "b", "c"}), "a, b or c");
}

TEST(Parse, WhatIsQuotedCanBePrinted) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\xff\n"), "\"a\\xff\\x0a\"");
  EXPECT_EQ(quoted(std::string(5000, 'x')), "\"" + std::string(2048, 'x') + "...\" (5000 bytes)");
}

TEST(Parse, WhatIsReadableIsUtf8) {
  for (const char* good : {"plain\n\tlines", "\xc3\xa9", "\xe2\x98\x83", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(readable(good), good);
  }
  EXPECT_EQ(readable(std::string("a\0b\x1b\x7f", 5)), "a\\x00b\\x1b\\x7f");
  EXPECT_EQ(readable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(readable("\xe2\x98!"), "\\xe2\\x98!");
  for (const char* bad : {"\xc0\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\x80"}) {
    const std::string text = readable(bad);
    EXPECT_EQ(text.size(), 4 * std::string(bad).size()) << text;
  }
}

TEST(Parse, FilesAreReadWhole) {
  const TemporaryFile file("two\nlines");
  EXPECT_EQ(read_text_file(file.path()), "two\nlines");
  EXPECT_EQ(read_text_file("/nonexistent"), "");
}

}  // namespace
}  // namespace switchml
