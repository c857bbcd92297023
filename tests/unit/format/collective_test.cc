#include "format/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

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
  c.total_count = 100;
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
  c = some(), c.operands()->divisor = 2;
  hashes.insert(agreement_hash(c));
  EXPECT_EQ(hashes.size(), 4U);
}

// Computed by a program of its own from the protocol's text and the definition of FNV-1a. [WIT-12, WIT-13]
TEST(Collective, KnownHashes) {
  Collective c;
  EXPECT_EQ(agreement_hash(c), 0xf622671f8a83cbaeU) << "all_reduce, tag 0, divisor 1, no movement, no root";
  c.title = "reduce", c.tag = 0x1234;
  c.kind = Reduce{{nullptr, {}, {}, 3}, 2};
  EXPECT_EQ(agreement_hash(c), 0xdc447d28baea6958U);
  c.kind = Broadcast{2};
  EXPECT_EQ(agreement_hash(c), 0x90a2ed126914345bU);
}

TEST(Collective, OfOneWorkerIsItsInput) {
  const uint8_t bytes[] = {1, 2, 3, 4};
  uint8_t out[4] = {};
  Collective c;
  c.type = ElementType::kUInt8;
  c.count = 4;
  const auto result_of = [&](decltype(c.kind) kind) {
    std::fill_n(out, 4, uint8_t{0});
    c.kind = std::move(kind);
    EXPECT_TRUE(complete_alone(c).ok());
    return std::vector<int>(out, out + 4);
  };
  EXPECT_EQ(result_of(Reduce{{bytes, {}, {out, 1, 3}, 1}, -1}), (std::vector<int>{2, 3, 0, 0}));
  EXPECT_EQ(result_of(Broadcast{0, bytes, nullptr}), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(result_of(Scatter{0, {bytes}, out}), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(result_of(Gather{bytes, {{out, 0, 4}}}), (std::vector<int>{1, 2, 3, 4}));
  Exchange exchange;
  exchange.input = bytes;
  exchange.on_sizes_known = [&](const std::vector<uint64_t>&) { return ExchangePlan{4, {{out + 1, 2, 4}}}; };
  EXPECT_EQ(result_of(exchange), (std::vector<int>{0, 3, 4, 0}));
  exchange.on_sizes_known = [](const std::vector<uint64_t>&) { return Status(Code::kMismatch, "they differ"); };
  c.kind = exchange;
  EXPECT_EQ(complete_alone(c).message(), "they differ");
}

}  // namespace
}  // namespace switchml
