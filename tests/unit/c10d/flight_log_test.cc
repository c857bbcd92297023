#include "c10d/flight_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace switchml {
namespace {

FlightEntry collective(uint64_t group, uint64_t number) {
  FlightEntry entry;
  entry.group = group;
  entry.collective = number;
  return entry;
}

FlightEntry message(uint64_t group) {
  FlightEntry entry;
  entry.group = group;
  entry.call = Call::kSend;
  entry.is_message = true;
  return entry;
}

FlightGroup named(const std::string& name) {
  FlightGroup group;
  group.name = name;
  return group;
}

TEST(FlightLog, KeepsWhatACallIsAndHowFarItIs) {
  FlightLog log(10);
  const uint64_t group = log.add_group(named("a"));
  FlightEntry call = collective(group, 1);
  const int64_t sizes[] = {3, 4};
  call.inputs.add("Float", sizes, 2);
  const uint64_t id = log.begin(call);
  FlightEntry kept = log.entries().at(0);
  EXPECT_EQ(kept.id, id);
  EXPECT_EQ(kept.inputs.sizes(), (std::vector<std::vector<int64_t>>{{3, 4}}));
  EXPECT_STREQ(kept.inputs.types().at(0), "Float");
  EXPECT_GT(kept.created, 0);
  EXPECT_EQ(kept.started, 0);
  EXPECT_FALSE(kept.retired);

  log.started(id);
  kept = log.entries().at(0);
  EXPECT_GE(kept.started, kept.created);
  EXPECT_EQ(kept.completed, 0);

  log.ended(id, true, 2.5F);
  kept = log.entries().at(0);
  EXPECT_GE(kept.completed, kept.started);
  EXPECT_EQ(kept.duration_ms, 2.5F);
  EXPECT_TRUE(kept.retired);
}

TEST(FlightLog, KeepsTheShapesOfManyTensors) {
  FlightLog log(1);
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t tensors = 1; tensors < 6; ++tensors) {  // The last one's place is used again.
    shapes.push_back(std::vector<int64_t>(static_cast<size_t>(tensors) - 1, tensors));
    FlightEntry call;
    for (const auto& shape : shapes) call.outputs.add("Long", shape.data(), shape.size());
    log.begin(call);
    EXPECT_EQ(log.entries().at(0).outputs.sizes(), shapes);
    EXPECT_EQ(log.entries().at(0).outputs.types().size(), shapes.size());
  }
  log.begin({});
  EXPECT_TRUE(log.entries().at(0).outputs.sizes().empty());
}

TEST(FlightLog, ACallThatFailedIsOverAndNotCompleted) {
  FlightLog log(10);
  const uint64_t id = log.begin(collective(log.add_group(named("a")), 1));
  log.started(id);
  log.ended(id, false);
  log.ended(id, true);  // too late
  EXPECT_TRUE(log.entries().at(0).retired);
  EXPECT_EQ(log.entries().at(0).completed, 0);
}

TEST(FlightLog, ACallThatIsNotTimedLastsFromItsStartToItsEnd) {
  FlightLog log(10);
  const uint64_t id = log.begin(collective(log.add_group(named("a")), 1));
  log.started(id);
  log.ended(id, true);
  const FlightEntry kept = log.entries().at(0);
  EXPECT_EQ(kept.duration_ms, static_cast<float>(kept.completed - kept.started) / 1e6F);
}

TEST(FlightLog, TellsHowFarEachGroupIs) {
  FlightLog log(10);
  const uint64_t one = log.add_group(named("a")), other = log.add_group(named("b"));
  log.begin(collective(one, 7));
  const uint64_t second = log.begin(collective(one, 8));
  log.ended(second, true);
  log.ended(log.begin(message(other)), false);
  const auto progress = log.progress();
  EXPECT_EQ(progress.at(one).enqueued, 8U);
  EXPECT_EQ(progress.at(one).completed, 8U);
  EXPECT_GT(progress.at(one).oldest_seconds, 0) << "the first one is under way";
  EXPECT_EQ(progress.at(other).enqueued, 0U);
  EXPECT_EQ(progress.at(other).oldest_seconds, 0) << "an error is an end, too";
}

TEST(FlightLog, ACallThatIsSeenNoEarlierBeginsWhenItEnds) {
  FlightLog log(10);
  log.ended(log.begin(collective(log.add_group(named("a")), 1)), true);
  EXPECT_EQ(log.entries().at(0).started, log.entries().at(0).completed);
}

TEST(FlightLog, KeepsTheLastCallsInTheirOrder) {
  FlightLog log(3);
  const uint64_t group = log.add_group(named("a"));
  const uint64_t first = log.begin(collective(group, 1));
  for (uint64_t number = 2; number <= 5; ++number) log.begin(collective(group, number));
  log.ended(first, true);  // forgotten: its place is another's
  const auto kept = log.entries();
  ASSERT_EQ(kept.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(kept[i].collective, i + 3);
    EXPECT_FALSE(kept[i].retired);
  }
}

TEST(FlightLog, CountsMessagesApart) {
  FlightLog log(10);
  const uint64_t group = log.add_group(named("a"));
  log.begin(message(group));
  log.begin(collective(group, 1));
  log.begin(message(group));
  const auto kept = log.entries();
  EXPECT_EQ(kept[0].message, 1U);
  EXPECT_EQ(kept[1].message, 1U);
  EXPECT_EQ(kept[2].message, 2U);
}

TEST(FlightLog, CountsTheMessagesOfAStream) {
  FlightLog log(10);
  const uint64_t group = log.add_group(named("a"));
  const MessageStream streams[] = {{0, 1, 0}, {0, 1, 0}, {1, 0, 0}, {0, 1, 5}, {0, 1, 0}};
  for (const MessageStream& stream : streams) log.belongs_to(log.begin(message(group)), stream);
  log.belongs_to(log.begin(message(log.add_group(named("b")))), {0, 1, 0});
  const uint64_t unknown = log.begin(message(group));
  const auto kept = log.entries();
  const uint64_t places[] = {1, 2, 1, 1, 3, 1, 0};
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(kept[i].place, places[i]) << i;
  EXPECT_EQ(kept[3].stream->tag, 5);
  EXPECT_FALSE(kept[6].stream);
  log.belongs_to(unknown, {0, 1, 0});
  log.belongs_to(unknown, {1, 0, 0});  // too late
  EXPECT_EQ(log.entries()[6].place, 4U);
  EXPECT_EQ(log.entries()[6].stream->source, 0);
}

TEST(FlightLog, ForgetsTheStreamThatHasHadNoMessageForLongest) {
  FlightLog log(1);
  const uint64_t group = log.add_group(named("a"));
  const auto place = [&](int tag) {
    log.belongs_to(log.begin(message(group)), {0, 1, tag});
    return log.entries()[0].place;
  };
  for (int tag = 0; tag < 4096; ++tag) EXPECT_EQ(place(tag), 1U);
  EXPECT_EQ(place(0), 2U);
  EXPECT_EQ(place(4096), 1U);
  EXPECT_EQ(place(1), 1U);  // forgotten
  EXPECT_EQ(place(0), 3U);
}

TEST(FlightLog, KnowsHowFarGroupsAre) {
  FlightLog log(10);
  const uint64_t first = log.add_group(named("a"));
  const uint64_t second = log.add_group(named("b"));
  log.rename_group(second, "2", "the second");
  log.rename_group(77, "no such group", "");
  const uint64_t id = log.begin(collective(second, 5));
  log.begin(collective(second, 6));
  log.ended(id, true);
  const auto groups = log.groups();
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups.at(first).name, "a");
  EXPECT_EQ(groups.at(first).last_enqueued, 0U);
  EXPECT_EQ(groups.at(second).name, "2");
  EXPECT_EQ(groups.at(second).description, "the second");
  EXPECT_EQ(groups.at(second).last_enqueued, 6U);
  EXPECT_EQ(groups.at(second).last_completed, 5U);
}

TEST(FlightLog, ForgetsTheOldestOfManyGroups) {
  FlightLog log(1);
  const uint64_t first = log.add_group(named("first"));
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) last = log.add_group(named("later"));
  EXPECT_EQ(log.groups().count(first), 0U);
  EXPECT_EQ(log.groups().count(last), 1U);
}

TEST(FlightLog, KeepsNothingWhereItMayNot) {
  FlightLog log(0);
  const uint64_t id = log.begin(collective(log.add_group(named("a")), 1));
  log.started(id);
  log.ended(id, true);
  EXPECT_TRUE(log.entries().empty());
}

TEST(FlightLog, ALivePageHearsOfCallsThatAreNotKept) {
  char folder[] = "/dev/shm/switchml-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  {
    const auto group = LivePage::add_group({folder, {"all_reduce"}}, {"a", 0, 2, 0});
    FlightLog log(0);
    FlightEntry call = collective(log.add_group(named("a")), 1);
    call.live = group.get();
    const uint64_t id = log.begin(call);
    EXPECT_TRUE(log.ended(id, true)) << "its packets have never been counted";
    group->count({});
    EXPECT_FALSE(log.ended(log.begin(call), true)) << "they were, just now";
    EXPECT_FALSE(log.ended(id, true)) << "it has ended";
  }
  ::rmdir(folder);
}

}  // namespace
}  // namespace switchml
