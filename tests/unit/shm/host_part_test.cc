#include "shm/host_part.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "board_memory.h"

namespace switchml::shm {
namespace {

using testing::BoardMemory;

constexpr uint64_t kSeq = 1;

/// Ranks 1 and 3 of four, on the second of two hosts, of which the first has the others.
class OfTwo : public ::testing::Test {
 protected:
  void offer(const std::string& first, const std::string& second, const ChunkCall& one, const ChunkCall& two) {
    const Board& board = memory_.board();
    std::memcpy(board.frame(0, kSeq), first.data(), first.size());
    std::memcpy(board.frame(1, kSeq), second.data(), second.size());
    board.offer(0, kSeq, one);
    board.offer(1, kSeq, two);
  }
  template <typename Kind>
  Collective part(Kind kind, size_t elements) {
    Collective whole;
    whole.kind = std::move(kind);
    whole.type = ElementType::kUInt8;
    whole.count = 1000;
    whole.title = "moved";
    whole.exactly = true;
    return part_of_host(memory_.board(), kSeq, whole, elements, host_map_);
  }
  static ChunkCall call(uint32_t elements, uint32_t begin = 0, uint32_t end = UINT32_MAX) {
    ChunkCall call;
    call.elements = elements;
    call.begin = begin;
    call.end = end;
    return call;
  }
  std::string result(size_t bytes) const {
    return {reinterpret_cast<const char*>(memory_.board().result_memory(kSeq)), bytes};
  }
  uint8_t* result() const { return memory_.board().result_memory(kSeq); }
  const uint8_t* frame(int place) const { return memory_.board().frame(place, kSeq); }

  BoardMemory memory_{{2, 2, 64, 1}};
  const HostMap host_map_{{{0, 2}, {1, 3}}, 1};
};

TEST_F(OfTwo, AReductionIsOfAllAndAsksForWhatAnyWants) {  // [MOVED-5]
  offer("aaaaaaaa", "bbbbbbbb", call(8, 1, 3), call(8, 5, 7));
  Reduce mean{{}, 2};
  mean.divisor = 3;
  const Collective sum = part(mean, 8);
  EXPECT_EQ(sum.operands()->inputs, (std::vector<const void*>{frame(0), frame(1)}));
  EXPECT_EQ(sum.root(), 0) << "the host of rank 2";
  EXPECT_EQ(sum.operands()->divisor, 3U);
  EXPECT_EQ(sum.count, 8U);
  EXPECT_EQ(sum.total_count, 1000U);
  EXPECT_TRUE(sum.exactly);
  EXPECT_EQ(sum.output().begin, 1U);
  EXPECT_EQ(sum.output().end, 7U);
  EXPECT_EQ(sum.output().data, result() + 1);
}

TEST_F(OfTwo, OfAReductionThatNobodyHereWantsNothingComes) {
  offer("aaaa", "bbbb", call(4, 0, 0), call(4, 4));
  const Collective sum = part(Reduce(), 4);
  EXPECT_EQ(sum.output().begin, sum.output().end);
  EXPECT_EQ(sum.root(), -1);
}

TEST_F(OfTwo, ABroadcastFromHereIsThereForTheOtherRanksHere) {
  offer("", "bytes", call(5), call(5, 0, 0));
  const Collective sent = part(Broadcast{3}, 5);
  EXPECT_EQ(sent.root(), 1);
  EXPECT_EQ(sent.input(), frame(1));
  EXPECT_EQ(sent.output().data, nullptr);
  EXPECT_EQ(result(5), "bytes");
}

TEST_F(OfTwo, ABroadcastFromElsewhereComesOnce) {
  offer("", "", call(5), call(5));
  const Collective got = part(Broadcast{2}, 5);
  EXPECT_EQ(got.root(), 0);
  EXPECT_EQ(got.input(), nullptr);
  EXPECT_EQ(got.output().data, result());
  EXPECT_EQ(got.output().end, 5U);
}

TEST_F(OfTwo, AScatterHasAPieceForEachPlaceOfEachHost) {
  offer("0213", "", call(1), call(1));
  const Collective sent = part(Scatter{1}, 1);
  EXPECT_EQ(sent.root(), 1);
  EXPECT_EQ(sent.count, 2U);
  EXPECT_EQ(std::get<Scatter>(sent.kind).inputs, (std::vector<const void*>{frame(0), frame(0) + 2}));
  EXPECT_EQ(sent.output().data, result());
  EXPECT_EQ(sent.output().end, 2U);
  EXPECT_TRUE(std::get<Scatter>(part(Scatter{0}, 1).kind).inputs.empty());
}

TEST_F(OfTwo, AGatheringGivesWhatAllHereHave) {
  offer("ab", "cd", call(2, 0, 0), call(2));
  const Collective gathered = part(Gather(), 2);
  EXPECT_EQ(gathered.count, 4U);
  EXPECT_EQ(gathered.input(), result() + 4);
  EXPECT_EQ(std::memcmp(gathered.input(), "abcd", 4), 0);
  const auto& ranges = gathered.gather()->receive_ranges;
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].data, result());
  EXPECT_EQ(ranges[1].data, result() + 4);
  EXPECT_EQ(ranges[1].end, 4U);
}

TEST_F(OfTwo, AGatheringThatNobodyHereWantsHasNoResult) {
  offer("ab", "cd", call(2, 0, 0), call(2, 0, 0));
  EXPECT_TRUE(part(Gather(), 2).gather()->receive_ranges.empty());
}

TEST(PartOfAHost, WithFewerRanksThanTheFullestHasHasZerosInTheirPlace) {  // [MOVED-8]
  BoardMemory memory({1, 2, 64, 1});
  const Board& board = memory.board();
  std::memset(board.result_memory(kSeq), 'x', 64);
  std::memcpy(board.frame(0, kSeq), "ab", 2);
  ChunkCall call;
  call.elements = 2;
  board.offer(0, kSeq, call);
  Collective whole;
  whole.kind = Gather();
  whole.type = ElementType::kUInt8;
  whole.count = 2;
  const Collective gathered = part_of_host(board, kSeq, whole, 2, HostMap({{0}, {1, 2, 3}}, 0));
  EXPECT_EQ(gathered.count, 6U);
  EXPECT_EQ(std::memcmp(gathered.input(), "ab\0\0\0\0x", 7), 0);
}

TEST_F(OfTwo, AnAnnouncementHasNoElements) {  // [HOST-6]
  for (const decltype(Collective::kind)& kind : {decltype(Collective::kind)(Broadcast{2}), {Scatter{2}}, {Gather()}}) {
    BoardMemory memory({2, 2, 64, 1});
    Collective whole;
    whole.kind = kind;
    whole.count = 1000;
    const Collective announced = part_of_host(memory.board(), kSeq, whole, 0, host_map_);
    EXPECT_EQ(announced.count, 0U);
    EXPECT_EQ(announced.total_count, 1000U);
    EXPECT_EQ(announced.movement(), whole.movement());
    EXPECT_EQ(announced.input(), nullptr);
    EXPECT_EQ(announced.output().end, 0U);
  }
}

}  // namespace
}  // namespace switchml::shm
