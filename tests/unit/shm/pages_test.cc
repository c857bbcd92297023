// When memory that ranks share is taken from the system, and what becomes of those who find none left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "integers.h"
#include "shm/local_rank.h"
#include "shm/segment.h"
#include "team.h"

namespace switchml::shm {
namespace {

using ::testing::HasSubstr;
using testing::Ints;
using testing::kLong;
using testing::Outcomes;
using testing::record_into;
using testing::sum_of;

const auto kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

/// Linux 5.14 and later; before, all is taken at the beginning.
bool takes_pieces() {
  constexpr int kPopulateWrite = 23;
  auto page = Segment::create(kPage);
  return page.ok() && ::madvise(page->data(), kPage, kPopulateWrite) == 0;
}

size_t taken(const Segment& segment) {
  struct stat status {};
  EXPECT_EQ(::fstat(segment.fd(), &status), 0);
  return static_cast<size_t>(status.st_blocks) * 512;
}

TEST(Pages, AreTakenWhenTheyArePopulated) {
  if (!takes_pieces()) GTEST_SKIP() << "needs Linux 5.14";
  auto segment = Segment::create(64 * kPage);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ(taken(segment.value()), 0U);
  EXPECT_TRUE(populate(segment->data() + 3 * kPage - 1, 2).ok());
  EXPECT_EQ(taken(segment.value()), 2 * kPage) << "both that have a byte of it";
  auto other = Segment::adopt(Fd(::dup(segment->fd())), segment->size());
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(taken(segment.value()), 2 * kPage) << "to map it takes none";
}

TEST(Pages, OfABoardAreItsHeadersThenASlotAtATime) {
  if (!takes_pieces()) GTEST_SKIP() << "needs Linux 5.14";
  for (const int ranks : {2, 8, 128}) {
    const BoardShape shape = shape_for(ranks);
    auto segment = Segment::create(shape.bytes());
    ASSERT_TRUE(segment.ok());
    ASSERT_TRUE(Board::populate_headers(shape, segment->data()).ok());
    const size_t headers = taken(segment.value());
    EXPECT_LE(headers, ranks * size_t{4} * 1024 + 4 * kPage) << ranks << " ranks, of " << shape.bytes();
    const Board board(shape, segment->data());
    const size_t slot = (Board::bytes(shape) - headers / 2) / static_cast<size_t>(shape.slots);
    ASSERT_TRUE(board.populate(1).ok());
    EXPECT_LE(taken(segment.value()), headers + slot + 2 * kPage);
    EXPECT_GE(taken(segment.value()), headers + slot / 2);
  }
}

/// A mapping of which only the beginning has memory, as if there were no more.
class Scarce {
 public:
  Scarce(size_t bytes, size_t with_memory) : bytes_(bytes), fd_(::memfd_create("test", 0)) {
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(with_memory)), 0);
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Scarce() { ::munmap(data_, bytes_); }
  Scarce(const Scarce&) = delete;
  Scarce& operator=(const Scarce&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  size_t bytes_;
  Fd fd_;
  void* data_;
};

TEST(Pages, ThatLackAreAnErrorAndNoSignal) {
  if (!takes_pieces()) GTEST_SKIP() << "needs Linux 5.14";
  const Scarce memory(4 * kPage, kPage);
  EXPECT_TRUE(populate(memory.data(), kPage).ok());
  const Status status = populate(memory.data() + kPage - 1, 2);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "no room for 2 bytes of memory that ranks share: Cannot allocate memory");
}

// Who finds none says so to all: the others would wait for it until their timeout passes.
TEST(Pages, ARankThatFindsNoneTellsTheOthers) {
  if (!takes_pieces()) GTEST_SKIP() << "needs Linux 5.14";
  const BoardShape shape{2, 8, 64 * 1024, 0};
  const Scarce memory(shape.bytes(), 4 * kPage);
  const Board board(shape, memory.data());
  std::vector<Status> failures[2];
  LocalRank ranks[2] = {{board, 0, [&](const Status& status) { failures[0].push_back(status); }},
                        {board, 1, [&](const Status& status) { failures[1].push_back(status); }}};
  Ints tensor(1000, 1);
  Outcomes outcomes[2];
  for (const int rank : {0, 1}) {
    Collective sum = sum_of(tensor);
    outcomes[rank] = record_into(&sum);
    ranks[rank].submit(std::move(sum));
  }
  const Time now{seconds(1000)};
  while (ranks[1].step(now)) {
  }
  EXPECT_TRUE(ranks[0].has_work()) << "it is told";
  while (ranks[0].step(now)) {
  }
  for (const int rank : {0, 1}) {
    ASSERT_EQ(outcomes[rank]->size(), 1U) << rank;
    EXPECT_THAT(outcomes[rank]->front().message(), HasSubstr("memory that ranks share: Cannot allocate memory"));
    ASSERT_EQ(failures[rank].size(), 1U);
  }
  EXPECT_THAT(failures[1][0].message(), HasSubstr("rank 1: no room for"));
}

TEST(Pages, OfChunksWithoutElementsAreNotTaken) {
  const BoardShape shape{2, 8, 64 * 1024, 0};
  const Scarce memory(shape.bytes(), 4 * kPage);
  const Board board(shape, memory.data());
  std::vector<std::unique_ptr<LocalRank>> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(
        std::make_unique<LocalRank>(board, rank, [](const Status& status) { ADD_FAILURE() << status.message(); }));
  }
  std::vector<Outcomes> outcomes;
  for (auto& rank : ranks) {
    Collective barrier;
    barrier.op = ReduceOp::kBarrier;
    barrier.title = "barrier";
    outcomes.push_back(record_into(&barrier));
    rank->submit(std::move(barrier));
  }
  const Time now{seconds(1000)};
  for (int i = 0; i < 10; ++i) {
    for (auto& rank : ranks) rank->step(now);
  }
  for (const Outcomes& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_TRUE(outcome->front().ok());
  }
}

}  // namespace
}  // namespace switchml::shm
