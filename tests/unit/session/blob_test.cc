#include "session/blob.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(Blob, WhatIsSetIsRead) {
  Blob blob;
  blob.set("name", "a=b, c");
  blob.set("count", uint64_t{18446744073709551615U});
  blob.set("empty", "");
  auto read = Blob::parse(blob.encode());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->text("name"), "a=b, c");
  EXPECT_EQ(read->text("empty"), "");
  EXPECT_EQ(read->text("absent"), "");
  uint64_t value = 0;
  EXPECT_TRUE(read->number("count", UINT64_MAX, &value));
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_TRUE(read->carried().ok());
}

TEST(Blob, NumbersAreChecked) {
  Blob blob;
  blob.set("big", "18446744073709551616");
  blob.set("signed", "-1");
  blob.set("word", "7x");
  blob.set("nothing", "");
  blob.set("eight", "8");
  uint64_t value = 99;
  for (const char* key : {"big", "signed", "word", "nothing", "absent"}) {
    EXPECT_FALSE(blob.number(key, UINT64_MAX, &value)) << key;
  }
  EXPECT_FALSE(blob.number("eight", 7, &value));
  EXPECT_EQ(value, 99U);
  EXPECT_TRUE(blob.number("eight", 8, &value));
}

TEST(Blob, CarriesAFailureOnOneLine) {
  auto read = Blob::parse(Blob::failure({Code::kTimeout, "first\nsecond\r=third"}).encode());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->carried().code(), Code::kTimeout);
  EXPECT_EQ(read->carried().message(), "first second =third");
}

TEST(Blob, AFailureWithoutAProperCodeIsStillOne) {
  for (const char* code : {"", "0", "99", "x"}) {
    Blob blob;
    blob.set("error", "no");
    blob.set("code", code);
    EXPECT_EQ(blob.carried().code(), Code::kInternal) << code;
  }
}

TEST(Blob, ForeignTextIsRefused) {
  const std::string good = Blob().encode();
  EXPECT_TRUE(Blob::parse(good).ok());
  for (const std::string& text :
       {std::string(), std::string("switchml-session 2\n"), std::string("hello"), good + "no equals sign\n",
        good + "=value\n", good + "a=1\na=2\n", good + "a=" + std::string(70000, 'x')}) {
    auto blob = Blob::parse(text);
    ASSERT_FALSE(blob.ok()) << text.substr(0, 60);
    EXPECT_EQ(blob.status().code(), Code::kMismatch);
    EXPECT_NE(blob.status().message().find("same switchml on all ranks"), std::string::npos);
  }
}

}  // namespace
}  // namespace switchml
