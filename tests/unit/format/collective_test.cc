#include "format/collective.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace switchml {
namespace {

Collective some() {
  Collective c;
  c.title = "reduce";
  c.op = ReduceOp::kMax;
  c.type = ElementType::kInt8;
  c.count = 5;
  return c;
}

TEST(Collective, IsDescribedAsAWhole) {
  Collective c = some();
  EXPECT_EQ(describe(c), "reduce(MAX, int8, 5 elements)");
  c.part_of = 100;
  EXPECT_EQ(describe(c), "reduce(MAX, int8, 100 elements)");
  c.op = ReduceOp::kBarrier;
  EXPECT_EQ(describe(c), "reduce");
}

TEST(Collective, WhatRanksMustAgreeAboutIsInItsHash) {
  std::set<uint64_t> hashes{agreement_hash(some())};
  Collective c = some();
  c.count = 6;  // what the witness has anyway
  EXPECT_EQ(hashes.count(agreement_hash(c)), 1U);
  c = some(), c.title = "reducf";
  hashes.insert(agreement_hash(c));
  c = some(), c.tag = 1;
  hashes.insert(agreement_hash(c));
  c = some(), c.divisor = 2;
  hashes.insert(agreement_hash(c));
  EXPECT_EQ(hashes.size(), 4U);
}

// Computed by a program of its own from the protocol's text and the definition of FNV-1a. [WIT-12, WIT-13]
TEST(Collective, KnownHashes) {
  Collective c;
  EXPECT_EQ(agreement_hash(c), 0xf622671f8a83cbaeU) << "all_reduce, tag 0, divisor 1, no movement, no root";
  c.title = "reduce", c.tag = 0x1234, c.divisor = 3, c.root = 2;
  c.movement = Movement::kBroadcast;
  EXPECT_EQ(agreement_hash(c), 0xfb3f4431c5d9b379U);
}

}  // namespace
}  // namespace switchml
