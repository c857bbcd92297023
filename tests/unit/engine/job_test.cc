#include "engine/job.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(SharedCollective, TheLastShardTellsOnceAndTheFirstErrorCounts) {
  std::vector<Status> told;
  Collective c;
  c.done = [&](const Status& status) { told.push_back(status); };
  SharedCollective shared(c, 3);
  shared.finish(Status());
  shared.finish(Status(Code::kTimeout, "first"));
  EXPECT_TRUE(told.empty());
  shared.finish(Status(Code::kAborted, "second"));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].message(), "first");
}

TEST(Job, WhatRanksMustAgreeAboutIsInTheHash) {
  SessionParameters session;
  session.payload_bytes = 1024;
  const auto agreed = [&](const char* title, uint64_t tag, uint32_t divisor) {
    Collective c;
    c.title = title;
    c.tag = tag;
    c.divisor = divisor;
    return Job(0, std::make_shared<SharedCollective>(c, 1), ElementRange{0, c.count}, session, session.payload_bytes)
        .agreed;
  };
  const uint64_t base = agreed("all_reduce", 0, 1);
  EXPECT_EQ(agreed("all_reduce", 0, 1), base);
  EXPECT_NE(agreed("reduce", 0, 1), base);
  EXPECT_NE(agreed("all_reduce", 1, 1), base);
  EXPECT_NE(agreed("all_reduce", 0, 2), base);
}

TEST(Job, DescribesTheCall) {
  SessionParameters session;
  Collective c;
  c.op = ReduceOp::kMax;
  c.type = ElementType::kInt16;
  c.count = 12;
  EXPECT_EQ(Job(0, std::make_shared<SharedCollective>(c, 1), ElementRange{0, c.count}, session, session.payload_bytes)
                .describe(),
            "all_reduce(MAX, int16, 12 elements)");
}

}  // namespace
}  // namespace switchml
