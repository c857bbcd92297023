#include "base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "temporary_tree.h"

namespace switchml {
namespace {

using List = std::vector<int>;

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
  EXPECT_EQ(concurrent_threads("/nowhere"), 1);
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
  EXPECT_EQ(processor_quota(tree.root()), std::nullopt);
  tree.file("/sys/fs/cgroup/cpu.max", "800000 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 8.0);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "max 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 8.0);
  tree.file("/sys/fs/cgroup/kubepods/pod1/cpu.max", "150000 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 1.5);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "300000 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 1.5);
  tree.file("/sys/fs/cgroup/kubepods/pod1/job/cpu.max", "20000 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 0.2);
  EXPECT_EQ(concurrent_threads(tree.root()), 0);
}

// In a container the path is often one of the host's, of which only the last part is mounted; or "/".
TEST(Processors, AGroupThatIsNotThereSaysNothing) {
  const TemporaryTree tree;
  tree.file("/proc/self/cgroup", "0::/\n");
  tree.file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(processor_quota(tree.root()), 2.0);
  tree.file("/proc/self/cgroup", "0::/of/the/host\n");
  EXPECT_EQ(processor_quota(tree.root()), 2.0);
  tree.file("/proc/self/cgroup", "garbage\n::\n");
  EXPECT_NO_THROW(processor_quota(tree.root()));
  EXPECT_EQ(processor_quota("/nowhere"), std::nullopt);
}

TEST(Processors, TheOldHierarchyHasFilesOfItsOwn) {
  const TemporaryTree tree;
  tree.file("/proc/self/cgroup", "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/\n0::/docker/a\n");
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "-1\n");
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(tree.root()), std::nullopt);
  tree.file("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(processor_quota(tree.root()), 2.5);
  tree.file("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "100000\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(processor_quota(tree.root()), 2.0);
}

TEST(Processors, WithoutAQuotaTheMaskCounts) {
  EXPECT_EQ(concurrent_threads("/nowhere"), static_cast<int>(allowed_processors().size()));
  EXPECT_GE(concurrent_threads(), 0);
}

}  // namespace
}  // namespace switchml
