#include "c10d/call_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace switchml {
namespace {

TEST(CallTable, CountsByCallAndPath) {
  CallTable table;
  table.add(Call::kAllReduce, Way::kSwitch);
  table.add(Call::kAllReduce, Way::kSwitch);
  table.add(Call::kAllReduce, Way::kPeers);
  table.add(Call::kBarrier, Way::kSwitch);
  EXPECT_EQ(table.get(Call::kAllReduce, Way::kSwitch), 2U);
  EXPECT_EQ(table.get(Call::kAllReduce, Way::kPeers), 1U);
  EXPECT_EQ(table.get(Call::kAllReduce, Way::kLocal), 0U);
  EXPECT_EQ(table.total(Way::kSwitch), 3U);
  EXPECT_EQ(table.total(Way::kPeers), 1U);
  EXPECT_EQ(table.total(Way::kLocal), 0U);
}

TEST(CallTable, EveryCallHasItsOwnNameAndTitle) {
  std::set<std::string> names;
  for (size_t i = 0; i < kCalls; ++i) {
    const Call call = static_cast<Call>(i);
    names.insert(to_string(call));
    EXPECT_EQ(profiling_title(call), "switchml:" + std::string(to_string(call)));
  }
  EXPECT_EQ(names.size(), kCalls);
  EXPECT_STREQ(to_string(Call::kAllReduce), "all_reduce");
  EXPECT_STREQ(to_string(Call::kRecvAnySource), "recv_any_source");
}

TEST(CallTable, EveryPathHasItsOwnName) {
  std::set<std::string> names;
  for (const Way path : kAllWays) names.insert(to_string(path));
  EXPECT_EQ(names, (std::set<std::string>{"switch", "memory", "peers", "store", "local"}));
}

TEST(CallTable, CountsFromManyThreads) {
  CallTable table;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table] {
      for (int i = 0; i < 1000; ++i) table.add(Call::kSend, Way::kPeers);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.get(Call::kSend, Way::kPeers), 4000U);
}

}  // namespace
}  // namespace switchml
