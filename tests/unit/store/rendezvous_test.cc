#include "store/rendezvous.h"

#include <gtest/gtest.h>

#include "store/map_store.h"

namespace switchml {
namespace {

TEST(Rendezvous, AWaitEndsWithWhatEndsIt) {
  MapStore store;
  int asked = 0;
  const auto ended = [&asked] { return ++asked < 3 ? Status() : Status(Code::kAborted, "enough"); };
  EXPECT_EQ(store.get_while("key", kNever, ended).status().message(), "enough");
  EXPECT_EQ(asked, 3);
}

TEST(Rendezvous, WhatIsThereNeedsNoWait) {
  MapStore store;
  ASSERT_TRUE(store.set("key", "value").ok());
  const auto never = [] { return Status(Code::kInternal, "asked"); };
  EXPECT_EQ(store.get_while("key", kNever, never).value(), "value");
}

TEST(Rendezvous, AWaitEndsAtItsDeadline) {
  MapStore store;
  const auto good = [] { return Status(); };
  const Time end = monotonic_now() + milliseconds(120);
  EXPECT_EQ(store.get_while("key", end, good).status().code(), Code::kTimeout);
  EXPECT_GE(monotonic_now(), end);
}

}  // namespace
}  // namespace switchml
