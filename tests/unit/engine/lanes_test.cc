#include "engine/lanes.h"

#include <gtest/gtest.h>

#include <vector>

namespace switchml {
namespace {

class AnyTask final : public Task {
 public:
  AnyTask() : Task(0, std::make_shared<SharedCollective>(Collective(), 1), 1, SessionParameters()) {}

 private:
  bool all_opened() const override { return true; }
};

TEST(Lanes, TakeTheSlotsOneAfterTheOther) {
  Lanes lanes({{Task::Stream::kShort, false, 2}, {Task::Stream::kShort, true, 3}, {Task::Stream::kBulk, true, 4}}, 100,
              7);
  EXPECT_EQ(lanes.slots(), 9);
  ASSERT_NE(lanes.of(102), nullptr);
  EXPECT_EQ(lanes.of(102)->number, 1);
  EXPECT_EQ(lanes.of(108)->number, 2);
  EXPECT_EQ(lanes.of(99), nullptr);
  EXPECT_EQ(lanes.of(109), nullptr);
  EXPECT_EQ(lanes.at(*lanes.of(108), 108).index, 8);
}

TEST(Lanes, KnowWhatIsUnderWay) {
  Lanes lanes({{Task::Stream::kShort, true, 2}, {Task::Stream::kBulk, true, 2}}, 0, 7);
  Lane& bulk = *lanes.of(2);
  AnyTask task;
  EXPECT_FALSE(lanes.any_in_flight());
  InFlight& first = lanes.open(bulk, task, {Stage::kData, 0, {0, 5}});
  EXPECT_EQ(first.slot, 2);
  EXPECT_EQ(first.seq, 7U);
  EXPECT_EQ(first.range.count, 5U);
  lanes.open(bulk, task, {Stage::kData, 0, {5, 5}});
  EXPECT_EQ(task.in_flight, 2U);
  EXPECT_EQ(lanes.in_flight(Task::Stream::kBulk), 2);
  EXPECT_EQ(lanes.in_flight(Task::Stream::kShort), 0);
  EXPECT_EQ(lanes.oldest(bulk), &first);
  lanes.accept(first);
  std::vector<int> open;
  lanes.for_each_open([&open](const InFlight& flight) { open.push_back(flight.index); });
  EXPECT_EQ(open, (std::vector<int>{3}));
}

}  // namespace
}  // namespace switchml
