#include "format/task.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

class AnyTask final : public Task {
 public:
  AnyTask(uint64_t number, Collective call, size_t chunks = 1, int slots = 8)
      : Task(number, std::make_shared<SharedCollective>(std::move(call), 1), chunks, session_of(slots)) {}

 private:
  static SessionParameters session_of(int slots) {
    SessionParameters session;
    session.slots = slots;
    return session;
  }
  bool all_opened() const override { return true; }
};

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

TEST(Task, TheHashCoversWhatRanksMustAgreeAbout) {  // [WIT-8]
  const auto agreed = [](Collective c, uint64_t serial = 0) { return AnyTask(serial, std::move(c)).agreed; };
  const uint64_t base = agreed({});
  EXPECT_EQ(agreed({}), base);
  EXPECT_NE(agreed({}, 1), base);
  Collective other;
  other.title = "reduce";
  EXPECT_NE(agreed(other), base);
  other = {};
  other.tag = 1;
  EXPECT_NE(agreed(other), base);
  other = {};
  other.operands()->divisor = 2;
  EXPECT_NE(agreed(other), base);
  other = {};
  other.stream = StreamChoice::kShort;
  EXPECT_EQ(agreed(other, 1), agreed(other)) << "where hosts choose the stream calls have no number";
}

TEST(Task, IsBulkWhereItsChunksAreMoreThanTheShortStreamsSlots) {  // [LANE-5]
  const auto few = static_cast<size_t>(LaneSlots::of(512).data);
  EXPECT_FALSE(AnyTask(0, {}, few, 512).is_bulk());
  EXPECT_TRUE(AnyTask(0, {}, few + 1, 512).is_bulk());
  EXPECT_FALSE(AnyTask(0, {}, few + 1, 8).is_bulk()) << "there is one stream only";
  Collective chosen;
  chosen.stream = StreamChoice::kBulk;
  EXPECT_TRUE(AnyTask(0, chosen, 1, 512).is_bulk());
  EXPECT_TRUE(AnyTask(0, chosen, 1, 512).announced) << "the caller sees to it";
}

TEST(Task, DescribesTheCall) {
  Collective c;
  c.op = ReduceOp::kMax;
  c.type = ElementType::kInt16;
  c.count = 12;
  EXPECT_EQ(AnyTask(0, c).describe(), "all_reduce(MAX, int16, 12 elements)");
}

}  // namespace
}  // namespace switchml
