#include "shm/ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "shm/segment.h"

namespace switchml::shm {
namespace {

constexpr size_t kSmallRing = 1024;

/// Both ends of a ring in this process.
struct RingEnds {
  explicit RingEnds(size_t capacity)
      : memory(Segment::create(Ring::bytes(capacity))),
        writer(memory->data(), capacity),
        reader(memory->data(), capacity) {}
  Result<Segment> memory;
  Ring writer;
  Ring reader;
};

std::vector<uint8_t> bytes_of(uint64_t id, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(id * 31 + i);
  return bytes;
}

bool put(Ring& ring, uint64_t id, size_t bytes) {
  const std::vector<uint8_t> data = bytes_of(id, bytes);
  const auto written = ring.put({MessageRecord::kWhole, 5, id, bytes, 0}, data.data(), bytes);
  EXPECT_TRUE(written.ok());
  return written.ok() && written.value();
}

/// Reads the next record and checks it; false: there is none.
bool check_next(Ring& ring, uint64_t id, size_t bytes) {
  const uint8_t* behind = nullptr;
  const MessageRecord* record = ring.next(&behind);
  if (record == nullptr) return false;
  EXPECT_EQ(record->id, id);
  EXPECT_EQ(record->bytes, bytes);
  EXPECT_EQ(std::vector<uint8_t>(behind, behind + bytes), bytes_of(id, bytes));
  return true;
}

TEST(Ring, TellsAWriterThatWaitsWhenHalfIsFree) {
  RingEnds ends(kSmallRing);
  uint64_t written = 0;
  while (put(ends.writer, written + 1, ends.writer.most_behind())) ++written;
  EXPECT_EQ(written, kSmallRing / (32 + kSmallRing / 8));
  EXPECT_TRUE(ends.writer.await_room());
  ends.reader.look();
  uint64_t read = 0;
  bool told = false;
  while (!told) {
    ASSERT_TRUE(check_next(ends.reader, ++read, ends.writer.most_behind()));
    told = ends.reader.pop();
  }
  EXPECT_GE(2 * read, written - 1);
  EXPECT_LT(read, written) << "it is told before all is read";
  EXPECT_TRUE(put(ends.writer, written + 1, ends.writer.most_behind()));
}

TEST(Ring, FindsRoomThatHasComeMeanwhile) {
  RingEnds ends(kSmallRing);
  uint64_t written = 0;
  while (put(ends.writer, written + 1, 0)) ++written;
  ends.reader.look();
  for (uint64_t id = 1; id <= written; ++id) {
    ASSERT_TRUE(check_next(ends.reader, id, 0));
    EXPECT_FALSE(ends.reader.pop());
  }
  EXPECT_FALSE(ends.writer.await_room());
  EXPECT_TRUE(put(ends.writer, written + 1, 0));
}

TEST(Ring, CountsWhatIsTaken) {
  RingEnds ends(kSmallRing);
  EXPECT_EQ(ends.writer.taken(), 0U);
  ASSERT_TRUE(put(ends.writer, 1, 0));
  ends.reader.take(7);
  ends.reader.take(9);
  EXPECT_EQ(ends.writer.taken(), 16U);
}

TEST(Ring, IsAQueueWhateverTheSizes) {
  for (const size_t capacity : {size_t{512}, kSmallRing, size_t{1} << 18}) {
    std::mt19937_64 random(capacity);
    RingEnds ends(capacity);
    std::deque<std::pair<uint64_t, size_t>> model;
    uint64_t id = 0;
    for (int i = 0; i < 20000; ++i) {
      if (random() % 2 == 0) {
        const size_t bytes = random() % (ends.writer.most_behind() + 1);
        if (put(ends.writer, id + 1, bytes)) model.emplace_back(++id, bytes);
        continue;
      }
      ends.reader.look();
      if (model.empty()) {
        const uint8_t* behind = nullptr;
        ASSERT_EQ(ends.reader.next(&behind), nullptr);
        continue;
      }
      ASSERT_TRUE(check_next(ends.reader, model.front().first, model.front().second));
      ends.reader.pop();
      model.pop_front();
    }
  }
}

TEST(Ring, LosesNothingBetweenThreads) {
  constexpr uint64_t kRecords = 20000;
  RingEnds ends(kSmallRing);
  std::thread writer([&] {
    for (uint64_t id = 1; id <= kRecords; ++id) {
      while (!put(ends.writer, id, id % 100)) std::this_thread::yield();
    }
  });
  for (uint64_t id = 1; id <= kRecords;) {
    ends.reader.look();
    if (!check_next(ends.reader, id, id % 100)) {
      std::this_thread::yield();
      continue;
    }
    ends.reader.pop();
    ++id;
  }
  writer.join();
}

}  // namespace
}  // namespace switchml::shm
