#include "session/host_memory.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "shm/arena.h"

namespace switchml {
namespace {

/// One rank of a group, with its part in finding memory.
struct LocalRank {
  LocalRank(MapStore& store, int rank, int size, Duration patience = seconds(5))
      : group{rank, size, "group g"},
        exchange(store, group),
        memory(group, exchange, patience / 2, monotonic_now() + patience) {}
  GroupInfo group;
  StoreExchange exchange;
  HostMemory memory;
};

TEST(HostMemory, RanksOfOneHostHaveTheSame) {
  MapStore store;
  LocalRank first(store, 0, 3), second(store, 1, 3), third(store, 2, 3);
  Blob offered;
  ASSERT_TRUE(first.memory.offer(0, &offered).ok());
  for (LocalRank* member : {&first, &second, &third}) ASSERT_TRUE(member->memory.fetch(offered).ok());
  const auto missing = first.memory.missing(monotonic_now() + seconds(5));
  ASSERT_TRUE(missing.ok()) << missing.status().to_string();
  EXPECT_EQ(missing.value(), "");

  const auto a = first.memory.take(), b = second.memory.take(), c = third.memory.take();
  ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr);
  a->data()[77] = 5;
  EXPECT_EQ(b->data()[77], 5);
  EXPECT_EQ(c->data()[77], 5);
  for (const auto& segment : {a, b, c}) EXPECT_EQ(segment->fd(), -1) << "a descriptor that nobody needs";
  EXPECT_EQ(first.memory.take(), nullptr) << "it has been taken";
}

TEST(HostMemory, TheRankThatHasNoneIsNamed) {
  MapStore store;
  LocalRank first(store, 0, 3), second(store, 1, 3), third(store, 2, 3);
  Blob offered;
  ASSERT_TRUE(first.memory.offer(0, &offered).ok());
  ASSERT_TRUE(first.memory.fetch(offered).ok());
  ASSERT_TRUE(second.memory.fetch(offered).ok());
  Blob other = offered;
  other.set("memory_key", 4711);
  ASSERT_TRUE(third.memory.fetch(other).ok()) << "it was said";
  EXPECT_EQ(third.memory.take(), nullptr);
  const auto missing = first.memory.missing(monotonic_now() + seconds(5));
  ASSERT_TRUE(missing.ok()) << missing.status().to_string();
  EXPECT_EQ(missing->find("rank 2: "), 0U) << missing.value();
  EXPECT_NE(missing->find("refuses"), std::string::npos) << missing.value();
}

TEST(HostMemory, ARankThatSaysNothingIsAwaitedForSoLong) {
  MapStore store;
  LocalRank first(store, 0, 2);
  Blob offered;
  ASSERT_TRUE(first.memory.offer(0, &offered).ok());
  ASSERT_TRUE(first.memory.fetch(offered).ok());
  const auto missing = first.memory.missing(monotonic_now() + milliseconds(20));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::kTimeout);
  EXPECT_NE(missing.status().message().find("rank 1"), std::string::npos) << missing.status().message();
}

TEST(HostMemory, NobodyFetchesWhatHasBeenTaken) {
  MapStore store;
  LocalRank first(store, 0, 2), second(store, 1, 2);
  Blob offered;
  ASSERT_TRUE(first.memory.offer(0, &offered).ok());
  ASSERT_TRUE(first.memory.fetch(offered).ok());
  const auto kept = first.memory.take();
  ASSERT_NE(kept, nullptr);
  ASSERT_TRUE(second.memory.fetch(offered).ok());
  EXPECT_EQ(second.memory.take(), nullptr);
}

TEST(HostMemory, EachHostHasItsOwn) {
  MapStore store;
  const HostLayout hosts = HostLayout::of({"a", "b", "b", "a"});
  std::vector<std::shared_ptr<shm::Segment>> taken(4);
  each_rank(4, [&](int rank) {
    LocalRank member(store, rank, 4);
    member.memory.share(hosts);
    EXPECT_EQ(member.memory.why_none(), "");
    // As in a group: everybody says that it has fetched before the first one closes the door.
    EXPECT_TRUE(member.exchange.say("path", Blob()).ok());
    EXPECT_TRUE(member.exchange.hear_all("path", monotonic_now() + seconds(5)).ok());
    taken[static_cast<size_t>(rank)] = member.memory.take();
  });
  for (const auto& segment : taken) ASSERT_NE(segment, nullptr);
  taken[0]->data()[9] = 1;
  taken[1]->data()[9] = 2;
  EXPECT_EQ(taken[3]->data()[9], 1);
  EXPECT_EQ(taken[2]->data()[9], 2);
  EXPECT_EQ(taken[0]->size(), shm::segment_bytes(hosts.shape_for(0), 0));
}

TEST(HostMemory, WhatTheHostsFirstRankLacksTheOthersLack) {
  MapStore store;
  const HostLayout hosts = HostLayout::of({"a", "b", "b"});
  LocalRank leader(store, 1, 3), other(store, 2, 3);
  Blob blob;
  blob.set("why", "no memory left");
  ASSERT_TRUE(leader.exchange.say("host", blob).ok());
  other.memory.share(hosts);
  EXPECT_EQ(other.memory.why_none(), "rank 1 has none: no memory left");
  EXPECT_EQ(other.memory.take(), nullptr);
}

TEST(HostMemory, AFirstRankThatDoesNotComeIsNamed) {
  MapStore store;
  const HostLayout hosts = HostLayout::of({"a", "b", "b"});
  LocalRank other(store, 2, 3, milliseconds(50));
  other.memory.share(hosts);
  EXPECT_NE(other.memory.why_none().find("rank 1 of group g did not share memory of its host"), std::string::npos)
      << other.memory.why_none();
}

// A short time for the search of a switch is none for the wait for another rank.
TEST(HostMemory, AFirstRankThatComesLateIsAwaited) {
  MapStore store;
  const HostLayout hosts = HostLayout::of({"b", "b"});
  const GroupInfo group{1, 2, "group g"};
  StoreExchange exchange(store, group);
  HostMemory waits(group, exchange, milliseconds(1), monotonic_now() + seconds(60));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(2500));
    LocalRank(store, 0, 2).memory.share(hosts);
  });
  waits.share(hosts);
  late.join();
  EXPECT_EQ(waits.why_none().find("did not share"), std::string::npos) << waits.why_none();
}

TEST(HostMemory, AReasonNamesItsRank) {
  Blob has, lacks;
  lacks.set("why", "none left");
  EXPECT_EQ(HostMemory::first_without({}), "");
  EXPECT_EQ(HostMemory::first_without({has, has}), "");
  EXPECT_EQ(HostMemory::first_without({has, lacks, lacks}), "rank 1: none left");
}

}  // namespace
}  // namespace switchml
