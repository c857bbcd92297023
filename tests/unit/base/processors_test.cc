#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "temporary_tree.h"

namespace switchml {
namespace {

using List = std::vector<int>;

std::optional<double> least_quota(const std::string& root) {
  std::optional<double> least;
  for (const ProcessorQuota& quota : own_processors(root).quotas) {
    least = std::min(quota.processors, least.value_or(quota.processors));
  }
  return least;
}

TEST(Processors, ListsAreReadAsTheKernelWritesThem) {
  EXPECT_EQ(parse_processor_list("0"), List{0});
  EXPECT_EQ(parse_processor_list("0-3,8"), (List{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_processor_list("8,2-3,2"), (List{2, 3, 8}));
  EXPECT_EQ(parse_processor_list("8191"), List{8191});
  for (const char* bad :
       {"", "a", "1,", ",1", "1,,2", "3-1", "-1", "1-", "0x1", " 1", "1 ", "8192", "0-8192", "1-2-3"}) {
    EXPECT_FALSE(parse_processor_list(bad).has_value()) << bad;
  }
}

TEST(Processors, ListsAreWrittenShortly) {
  for (const char* text : {"", "0", "0-1", "0-3,8", "2,4,6-8", "8191"}) {
    EXPECT_EQ(to_processor_list(parse_processor_list(text).value_or(List{})), text);
  }
}

TEST(Processors, TheMaskIsTheThreads) {
  const List before = allowed_processors();
  ASSERT_FALSE(before.empty());
  cpu_set_t old, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof old, &old), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(before.back()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_processors(), List{before.back()});
  EXPECT_EQ(to_text(own_processors("/nowhere")), std::to_string(before.back()));
  ::sched_setaffinity(0, sizeof old, &old);
  EXPECT_EQ(allowed_processors(), before);
}

TEST(Processors, AThreadCanBeRestricted) {
  const List before = allowed_processors();
  std::thread([&] {
    ASSERT_TRUE(run_on({before.front()}));
    EXPECT_EQ(allowed_processors(), List{before.front()});
    EXPECT_FALSE(run_on({kMaxProcessors - 1})) << "there is no such processor";
    EXPECT_FALSE(run_on({}));
    EXPECT_EQ(allowed_processors(), List{before.front()});
  }).join();
  EXPECT_EQ(allowed_processors(), before) << "the others stay where they were";
}

TEST(Processors, AGroupsQuotaIsTheLeastOnItsWayUp) {
  const TemporaryTree tree;
  tree.file("/proc/self/cgroup", "0::/kubepods/pod1/job\n");
  EXPECT_EQ(least_quota(tree.root()), std::nullopt);
  tree.file("/sys/fs/cgroup/cpu.max", "800000 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 8.0);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "max 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 8.0);
  tree.file("/sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 1.5);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 1.5);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "20000 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 0.2);
}

// In a container the path is often one of the host's, of which only the last part is mounted; or "/".
TEST(Processors, AGroupThatIsNotThereSaysNothing) {
  const TemporaryTree tree;
  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(least_quota(tree.root()), 2.0);
  tree.file("/proc/self/cgroup", "0::/of/the/host\n");
  EXPECT_EQ(least_quota(tree.root()), 2.0);
  tree.file("/proc/self/cgroup", "garbage\n::\n");
  EXPECT_NO_THROW(least_quota(tree.root()));
  EXPECT_EQ(least_quota("/nowhere"), std::nullopt);
}

TEST(Processors, TheOldHierarchyHasFilesOfItsOwn) {
  const TemporaryTree tree;
  tree.file("/proc/self/cgroup", "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/\n0::/docker/a\n");
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "-1\n");
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(least_quota(tree.root()), std::nullopt);
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(least_quota(tree.root()), 2.5);
  tree.file("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "100000\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(least_quota(tree.root()), 2.0);
}

// ---- processes of one machine ----

ProcessorShare share(const std::string& text) { return read_processor_share(text); }

TEST(Processors, SharesTravelAsText) {
  for (const char* text : {"", "0-3,8", "0 2:77=1.500000 1:5=8.000000"}) EXPECT_EQ(to_text(share(text)), text);
  EXPECT_EQ(share(to_text(own_processors())).allowed, allowed_processors());
  for (const char* bad : {"x", "0 2:77", " 2:77=1"}) EXPECT_TRUE(share(bad).allowed.empty()) << bad;
}

TEST(Processors, ThreadsRunAtOnceIfEachHasOneOfItsOwn) {
  const struct {
    std::vector<const char*> shares;
    List threads;
    bool at_once;
  } cases[] = {
      {{"0"}, {1}, true},
      {{"0"}, {2}, false},
      {{""}, {1}, false},
      {{"0-1", "0-1"}, {1, 1}, true},
      {{"0-1", "0-1"}, {2, 1}, false},
      {{"0", "1"}, {1, 1}, true},
      {{"0", "0"}, {1, 1}, false},
      {{"0-3", "4-7", "8-11"}, {4, 4, 4}, true},
      {{"0-3", "4-7", "8-11"}, {3, 5, 4}, false},
      {{"0-2", "0"}, {2, 1}, true},                      // the first one moves
      {{"0-1", "1-2", "2-3", "0"}, {1, 1, 1, 1}, true},  // and others for it
      {{"0-1", "1-2", "1-2", "0"}, {1, 1, 1, 1}, false},
      {{"0-7 2:5=2.0", "0-7 2:5=2.0"}, {1, 1}, true},
      {{"0-7 2:5=1.9", "0-7 2:5=1.9"}, {1, 1}, false},
      {{"0-7 2:5=1.0", "0-7 2:6=1.0"}, {1, 1}, true},                   // containers of their own
      {{"0-7 2:5=1.0 2:1=1.5", "0-7 2:6=1.0 2:1=1.5"}, {1, 1}, false},  // in one that is smaller
  };
  for (const auto& c : cases) {
    std::vector<ProcessorShare> shares;
    std::string text;
    for (const char* one : c.shares) {
      shares.push_back(share(one));
      text += std::string(one) + "; ";
    }
    EXPECT_EQ(all_run_at_once(shares, c.threads), c.at_once) << text;
  }
}

TEST(Processors, ManyThreadsMove) {
  std::vector<ProcessorShare> shares;
  for (int i = 0; i < 300; ++i) shares.push_back(share("0-" + std::to_string(i)));
  std::reverse(shares.begin(), shares.end());
  EXPECT_TRUE(all_run_at_once(shares, List(300, 1)));
  shares.push_back(share("299"));
  EXPECT_FALSE(all_run_at_once(shares, List(301, 1)));
}

TEST(Processors, WhatProcessesHaveBetweenThemCountsOnce) {
  EXPECT_EQ(processors_between({share("0-3"), share("2-5")}), 6);
  EXPECT_EQ(processors_between({share("0-3 2:5=1.5"), share("2-5 2:5=1.5")}), 1.5);
  EXPECT_EQ(processors_between({share("0-3 2:5=1.5"), share("2-5 2:6=2.0 2:1=8.0")}), 3.5);
  EXPECT_EQ(processors_between({share("0-3 2:5=1.5"), share("2-5")}), 6);
  EXPECT_EQ(processors_between({share("0 2:5=1.5")}), 1);
}

}  // namespace
}  // namespace switchml
