#include "base/counters.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>

namespace switchml {
namespace {

template <typename Counters>
std::map<std::string, uint64_t> values(const Counters& counters) {
  std::map<std::string, uint64_t> seen;
  counters.for_each([&](const CounterInfo& info, uint64_t value) {
    EXPECT_TRUE(seen.emplace(info.name, value).second) << info.name << " is there twice";
    EXPECT_STRNE(info.unit, "");
    EXPECT_STRNE(info.help, "");
  });
  return seen;
}

TEST(Counters, BeginAtZero) {
  for (const auto& [name, value] : values(WorkerCounters())) EXPECT_EQ(value, 0U) << name;
  for (const auto& [name, value] : values(SwitchCounters())) EXPECT_EQ(value, 0U) << name;
}

TEST(Counters, TheVisitMeetsEveryFieldUnderItsName) {
  WorkerCounters worker;
  worker.packets_sent.add(3);
  worker.packets_sent.add(4);
  worker.send_errors.add(5);
  auto seen = values(worker);
  EXPECT_EQ(seen.at("packets_sent"), 7U);
  EXPECT_EQ(seen.at("send_errors"), 5U);
  EXPECT_EQ(seen.at("retransmissions"), 0U);
  EXPECT_EQ(seen.size(), sizeof(WorkerCounters) / sizeof(Counter)) << "a counter that no visit meets";

  SwitchCounters at_switch;
  at_switch.dropped_stale.add(9);
  seen = values(at_switch);
  EXPECT_EQ(seen.at("dropped_stale"), 9U);
  EXPECT_EQ(seen.size(), sizeof(SwitchCounters) / sizeof(Counter));
}

TEST(Counters, OfSeveralPartsAddUp) {
  SwitchCounters first, second;
  first.packets_received.add(3);
  first.sessions_expired.add(1);
  second.packets_received.add(4);
  second.dropped_slot.add(5);
  const SwitchCounters copy = first;
  first.add(second);
  EXPECT_EQ(first.packets_received.get(), 7U);
  EXPECT_EQ(first.sessions_expired.get(), 1U);
  EXPECT_EQ(first.dropped_slot.get(), 5U);
  EXPECT_EQ(copy.packets_received.get(), 3U) << "a copy stays as it was";
}

TEST(Counters, CanBeReadWhileTheyAreWritten) {
  Counter counter;
  std::thread writer([&] {
    for (int i = 0; i < 100000; ++i) counter.add(1);
  });
  uint64_t last = 0;
  while (last < 100000) {
    const uint64_t now = counter.get();
    ASSERT_GE(now, last);
    last = now;
  }
  writer.join();
  EXPECT_EQ(counter.get(), 100000U);
}

}  // namespace
}  // namespace switchml
