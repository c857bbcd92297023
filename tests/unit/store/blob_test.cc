#include "store/blob.h"

#include <gtest/gtest.h>

#include <string>

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
        good + "=value\n", good + "a=1\na=2\n", good + "a=" + std::string(1 << 20, 'x')}) {
    auto blob = Blob::parse(text);
    ASSERT_FALSE(blob.ok()) << text.substr(0, 60);
    EXPECT_EQ(blob.status().code(), Code::kMismatch);
    EXPECT_NE(blob.status().message().find("same switchml on all ranks"), std::string::npos);
  }
}

TEST(Blob, ForeignBytesAreShownAsText) {
  EXPECT_NE(Blob::parse("\xff\x1b\n").status().message().find("(it begins with \"\\xff\\x1b\")"), std::string::npos);
}

// ---- blobs inside blobs ----

/// As another rank reads it.
Blob sent(const Blob& blob) {
  auto read = Blob::parse(blob.encode());
  EXPECT_TRUE(read.ok()) << read.status().to_string();
  return read.ok() ? read.value() : Blob();
}

Blob with(const std::string& key, const std::string& value) {
  Blob blob;
  blob.set(key, value);
  return blob;
}

TEST(Blob, HoldsOthersUnderNames) {
  Blob inner = with("address", "10.0.0.1:5 = a");
  inner.set("weight", uint64_t{7});
  Blob outer = with("address", "outside");
  outer.put("switch/0", inner);
  outer.put("switch/1", with("address", "10.0.0.2:5"));
  const Blob read = sent(outer);
  EXPECT_EQ(read.text("address"), "outside");
  EXPECT_EQ(read.inner("switch/0").encode(), inner.encode());
  EXPECT_EQ(read.inner("switch/1").text("address"), "10.0.0.2:5");
  EXPECT_EQ(read.inner("switch/1").text("weight"), "");
  EXPECT_EQ(read.inner("switch").inner("0").encode(), inner.encode()) << "a name of two words is a blob in a blob";
}

TEST(Blob, ANameThatBeginsLikeAnotherIsAnother) {
  Blob outer;
  for (const char* name : {"s/1", "s/10", "s/1a", "s/0", "s/2", "s"}) outer.put(name, with("name", name));
  outer.set("s/1", "a value, not a blob");
  const Blob read = sent(outer);
  for (const char* name : {"s/1", "s/10", "s/1a", "s/0", "s/2", "s"}) {
    EXPECT_EQ(read.inner(name).text("name"), name);
  }
  EXPECT_EQ(read.inner("s/1").encode(), with("name", "s/1").encode()) << "and nothing else";
}

TEST(Blob, DeepOnesComeBack) {
  Blob blob = with("core", "1");
  for (int depth = 0; depth < 20; ++depth) {
    Blob outer = with("depth", std::to_string(depth));
    outer.put("in", blob);
    blob = outer;
  }
  Blob read = sent(blob);
  for (int depth = 19; depth >= 0; --depth) {
    EXPECT_EQ(read.text("depth"), std::to_string(depth));
    read = read.inner("in");
  }
  EXPECT_EQ(read.encode(), with("core", "1").encode());
}

TEST(Blob, WhatIsNotThereIsEmpty) {
  Blob outer = with("b", "1");
  outer.put("nothing", Blob());
  const Blob read = sent(outer);
  for (const char* name : {"nothing", "a", "b", "z", ""}) {
    EXPECT_EQ(read.inner(name).encode(), Blob().encode()) << name;
  }
}

TEST(Blob, AFailureInsideIsNotTheOuterOnes) {
  Blob outer;
  outer.put("one", Blob::failure({Code::kTimeout, "late"}));
  const Blob read = sent(outer);
  EXPECT_TRUE(read.carried().ok());
  EXPECT_EQ(read.inner("one").carried().code(), Code::kTimeout);
}

TEST(Blob, AValueCannotPassForAKeyOfAnother) {
  Blob inner = with("name", "x\nswitch/1/name=y\rz");
  Blob outer;
  outer.put("switch/0", inner);
  const Blob read = sent(outer);
  EXPECT_EQ(read.inner("switch/1").encode(), Blob().encode());
  EXPECT_EQ(read.inner("switch/0").text("name"), "x switch/1/name=y z");
}

TEST(Blob, NamesThatAreNoneAreOnlyOdd) {
  for (const char* lines : {"/=1\n", "//a=1\n", "s/=1\n", "s//a=1\n", "s=1\n", "s/\xff/a=\x01\n"}) {
    const auto read = Blob::parse(Blob().encode() + lines);
    ASSERT_TRUE(read.ok()) << lines;
    for (const char* name : {"", "s", "s/", "/"}) {
      const Blob inner = read->inner(name);
      EXPECT_TRUE(inner.carried().ok());
      uint64_t value = 0;
      EXPECT_FALSE(inner.number("address", UINT64_MAX, &value)) << lines << name;
    }
  }
  EXPECT_FALSE(Blob::parse(Blob().encode() + "s/a=1\ns/a=2\n").ok()) << "twice";
}

}  // namespace
}  // namespace switchml
