#include "session/host_layout.h"

#include <gtest/gtest.h>

#include <functional>

namespace switchml {
namespace {

using Numbers = std::vector<int>;

HostLayout layout_of(const std::string& hosts) {
  std::vector<std::string> identities;
  for (const char host : hosts) identities.emplace_back(1, host);
  return HostLayout::of(identities);
}

TEST(HostLayout, NumbersHostsByTheirLowestRanks) {  // [HOST-1]
  const HostLayout layout = layout_of("bbabac");
  EXPECT_EQ(layout.ranks(), 6);
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_EQ(layout.ranks_of(0), (Numbers{0, 1, 3}));
  EXPECT_EQ(layout.ranks_of(1), (Numbers{2, 4}));
  EXPECT_EQ(layout.ranks_of(2), (Numbers{5}));
  const Numbers hosts{0, 0, 1, 0, 1, 2}, places{0, 1, 0, 2, 1, 0}, leaders{0, 0, 2, 0, 2, 5};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(layout.host_of(rank), hosts[static_cast<size_t>(rank)]);
    EXPECT_EQ(layout.place_of(rank), places[static_cast<size_t>(rank)]);
    EXPECT_EQ(layout.leader_of(rank), leaders[static_cast<size_t>(rank)]);
  }
  EXPECT_EQ(layout.leaders(), (Numbers{0, 2, 5}));
  EXPECT_EQ(layout.most(), 3);
  EXPECT_EQ(layout.least(), 1);
  EXPECT_EQ(layout.names(), (std::vector<std::string>{"0, 1 or 3 (one host)", "2 or 4 (one host)", "5"}));
}

TEST(HostLayout, ComesThroughTheStoreAsItIs) {
  for (const char* hosts : {"a", "ab", "aabbb", "abababc"}) {
    const HostLayout layout = layout_of(hosts);
    const auto read = HostLayout::parse(layout.text(), layout.ranks());
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(read->text(), layout.text());
    for (int host = 0; host < layout.hosts(); ++host) EXPECT_EQ(read->ranks_of(host), layout.ranks_of(host));
  }
}

TEST(HostLayout, WhatIsNoneIsRefused) {
  for (const char* text : {"", "0", "0 1 0 1", "0 2 1", "1 0 0", "0 -1 0", "0 0 x", "0 0 0x", "0 0 99999999999"}) {
    const auto read = HostLayout::parse(text, 3);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::kMismatch);
    EXPECT_NE(read.status().message().find("install the same switchml on all ranks"), std::string::npos);
  }
}

// Chunks and shards are the same on all hosts; the memory has room for the ranks that are there.
TEST(HostLayout, AllHostsCutTensorsTheSameWay) {  // [HOST-8]
  for (const int most : {2, 4, 9, 64, 127}) {
    const HostLayout layout = layout_of(std::string(static_cast<size_t>(most), 'a') + "bc" + "c");
    const shm::BoardShape first = layout.shape_for(0);
    EXPECT_EQ(first.ranks, most);
    EXPECT_LE(first.bytes(), shm::kMaxBoardBytes + shm::kMaxShortBoardBytes);
    for (const int rank : {most, most + 1}) {
      const shm::BoardShape shape = layout.shape_for(rank);
      EXPECT_EQ(shape.ranks, rank - most + 1);
      EXPECT_EQ(shape.chunk_bytes, first.chunk_bytes);
      EXPECT_EQ(shape.short_chunk_bytes, first.short_chunk_bytes);
      EXPECT_EQ(shape.slots, first.slots);
      EXPECT_EQ(shape.owners, 1);
    }
  }
}

TEST(HostLayout, EveryRankOfTheSmallestHostSendsUpToHalfOfTheSlots) {
  EXPECT_EQ(layout_of("ab").owners(), 1);
  EXPECT_EQ(layout_of("aabbb").owners(), 2);
  EXPECT_EQ(layout_of("aaaabbbb").owners(), 4);
  EXPECT_EQ(layout_of(std::string(8, 'a') + std::string(8, 'b')).owners(), 4);
}

TEST(HostLayout, HostsAreWorkersWhereTheyHaveSeveralRanksAndNothingElseIsAskedFor) {
  const auto wanted = [](const std::string& hosts, const std::function<void(Config*)>& change = nullptr,
                         bool faults = false) {
    Config config;
    if (change) change(&config);
    return wants_hosts(config, layout_of(hosts), faults);
  };
  EXPECT_TRUE(wanted("aabb"));
  EXPECT_TRUE(wanted("abb"));
  EXPECT_FALSE(wanted("aaaa")) << "one host needs no switch";
  EXPECT_FALSE(wanted("abcd")) << "nobody to share memory with";
  EXPECT_FALSE(wanted("aabb", nullptr, true));
  EXPECT_TRUE(wanted("aabb", [](Config* c) { c->switch_address = "s:1"; }));
  EXPECT_FALSE(wanted("aabb", [](Config* c) { c->transport = "udp"; }));
  EXPECT_TRUE(wanted("aabb", [](Config* c) { c->transport = "tcp"; }));
  EXPECT_TRUE(wanted("aabb", [](Config* c) { c->precision = Precision::kExact; }));
  const auto exact_in = [](size_t payload) {
    return [payload](Config* c) {
      c->precision = Precision::kExact;
      c->payload_bytes = payload;
    };
  };
  EXPECT_TRUE(wanted("aabb", exact_in(512)));
  EXPECT_FALSE(wanted("aabb", exact_in(256))) << "partial sums do not fit";
  EXPECT_FALSE(wanted("aabb", [](Config* c) { c->controller = "c:1"; }));
  EXPECT_FALSE(wanted("aabb", [](Config* c) { c->fallback = true; }));
  EXPECT_FALSE(wanted("aabb", [](Config* c) { c->shards = 2; }));
  EXPECT_FALSE(wanted("aabb", [](Config* c) { c->slots = 4; })) << "too few for two shards";
  EXPECT_TRUE(wanted("aabb", [](Config* c) { c->slots = 8; }));
}

TEST(HostLayout, ManyRanksOfAHostAreNamedInShort) {
  EXPECT_EQ(layout_of("aaaaaaaa").names()[0], "0, 1, 2, 3, 4, 5, 6 or 7 (one host)");
  EXPECT_EQ(layout_of("baaaaaaaaa").names()[1], "1, 2, 3, ... or 9 (one host)");
}

TEST(HostLayout, TakesAsManyRanksAsHostsMayHave) {
  const auto message = [](const std::string& hosts, const std::function<void(Config*)>& change = nullptr,
                          bool faults = false) {
    Config config;
    if (change) change(&config);
    return check_limits(config, layout_of(hosts), faults).message();
  };
  std::string most;
  for (int host = 0; host < 8; ++host) most += std::string(128, static_cast<char>('a' + host));
  EXPECT_EQ(message(most), "");
  const std::string alone = std::string(64, 'a') + std::string(64, 'b'), more = alone + "b";
  EXPECT_EQ(message(alone, [](Config* c) { c->transport = "udp"; }), "");
  EXPECT_EQ(message(more), "");
  const auto expect_blamed = [&](const std::string& setting, const std::function<void(Config*)>& change, bool faults) {
    EXPECT_NE(message(more, change, faults).find("because of " + setting + ": allowed are up to 128 such ranks"),
              std::string::npos)
        << message(more, change, faults);
  };
  expect_blamed(
      "SWITCHML_TRANSPORT=udp", [](Config* c) { c->transport = "udp"; }, false);
  expect_blamed(
      "SWITCHML_CONTROLLER", [](Config* c) { c->controller = "c:1"; }, false);
  expect_blamed(
      "SWITCHML_ON_SWITCH_FAILURE=fallback", [](Config* c) { c->fallback = true; }, false);
  expect_blamed(
      "SWITCHML_SHARDS=2", [](Config* c) { c->shards = 2; }, false);
  expect_blamed(
      "SWITCHML_SLOTS=4", [](Config* c) { c->slots = 4; }, false);
  expect_blamed("SWITCHML_FAULTS", nullptr, true);
}

}  // namespace
}  // namespace switchml
