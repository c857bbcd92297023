#include "engine/task.h"

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

TEST(Task, TheWitnessCoversWhatRanksMustAgreeAbout) {  // [WIT-8]
  SessionParameters session;
  session.payload_bytes = 1024;
  const auto covered = [&](Collective c, uint64_t serial = 0) {
    const ElementRange all{0, c.count};
    const auto shared = std::make_shared<SharedCollective>(std::move(c), 1);
    return Task(serial, shared, all, session, session.payload_bytes).covered;
  };
  const uint64_t base = covered({});
  EXPECT_EQ(covered({}), base);
  EXPECT_NE(covered({}, 1), base);
  Collective other;
  other.title = "reduce";
  EXPECT_NE(covered(other), base);
  other = {};
  other.tag = 1;
  EXPECT_NE(covered(other), base);
  other = {};
  other.divisor = 2;
  EXPECT_NE(covered(other), base);
  other = {};
  other.stream = StreamChoice::kShort;
  EXPECT_EQ(covered(other, 1), covered(other)) << "where hosts choose the stream calls have no number";
}

TEST(Task, DescribesTheCall) {
  SessionParameters session;
  Collective c;
  c.op = ReduceOp::kMax;
  c.type = ElementType::kInt16;
  c.count = 12;
  EXPECT_EQ(Task(0, std::make_shared<SharedCollective>(c, 1), ElementRange{0, c.count}, session, session.payload_bytes)
                .describe(),
            "all_reduce(MAX, int16, 12 elements)");
}

}  // namespace
}  // namespace switchml
