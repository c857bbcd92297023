#include "store/rendezvous.h"

#include <gtest/gtest.h>

#include "store/map_store.h"

namespace switchml {
namespace {

TEST(Rendezvous, SeveralKeysAreThereOnlyTogether) {
  MapStore store;
  ASSERT_TRUE(store.set("a", "1").ok());
  EXPECT_FALSE(store.has_all({"a", "b"}).value());
  EXPECT_EQ(store.get_all({"a", "b"}).status().code(), Code::kTimeout);
  ASSERT_TRUE(store.set("b", "2").ok());
  EXPECT_TRUE(store.has_all({"a", "b"}).value());
  EXPECT_EQ(store.get_all({"b", "a"}).value(), (std::vector<std::string>{"2", "1"}));
}

}  // namespace
}  // namespace switchml
