#include "transport/stream_frames.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "transport/harness.h"
#include "transport/raw_tcp.h"

namespace switchml {
namespace {

constexpr size_t kMost = 1000;

/// A reader whose rooms are of the least size, and are overwritten when they are given up.
struct Reader {
  std::vector<Bytes> rooms{Bytes(kMost + kStreamPrefixBytes), Bytes(kMost + kStreamPrefixBytes)};
  size_t room = 0;
  size_t moves = 0;
  StreamFrames in{kMost};
  std::vector<Bytes> got;

  /// Takes up to `most` bytes of the stream; returns how many.
  size_t take(const uint8_t* data, size_t most) {
    if (in.needs_room()) {
      const size_t old = std::exchange(room, 1 - room);
      in.use(rooms[room].data(), rooms[room].size());
      std::fill(rooms[old].begin(), rooms[old].end(), uint8_t{0xee});
      ++moves;
    }
    const size_t size = std::min(most, in.worth_reading());
    EXPECT_GT(size, 0U);
    EXPECT_LE(in.end() + size, rooms[room].data() + rooms[room].size());
    if (size == 0) return most;
    std::copy_n(data, size, in.end());
    in.feed(size);
    const uint8_t* frame = nullptr;
    for (uint32_t bytes = 0; in.next(&frame, &bytes);) got.emplace_back(frame, frame + bytes);
    EXPECT_FALSE(in.has_next());
    if (in.is_empty()) in.drop_room();
    return size;
  }
};

Bytes stream_of(const std::vector<Bytes>& frames) {
  Bytes stream;
  for (const Bytes& frame : frames) {
    const Bytes bytes = on_the_wire(frame);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  return stream;
}

TEST(StreamFrames, ThePrefixIsTheOneOfTheProtocol) {  // [TCP-1]
  uint8_t prefix[kStreamPrefixBytes];
  write_stream_prefix(0x01020304, prefix);
  const uint8_t expected[] = {0x53, 1, 0, 0, 1, 2, 3, 4};
  EXPECT_EQ(std::memcmp(prefix, expected, sizeof expected), 0);
}

TEST(StreamFrames, WhatAFrameLacksIsKnownFromItsPrefixOn) {
  Bytes room(2 * (kMost + kStreamPrefixBytes));
  StreamFrames in(kMost);
  EXPECT_EQ(in.missing(), 1U);
  in.use(room.data(), room.size());
  const Bytes stream = stream_of({pattern(1, 100), pattern(2, 300)});
  const auto feed = [&](size_t from, size_t to) {
    std::copy(stream.begin() + static_cast<std::ptrdiff_t>(from), stream.begin() + static_cast<std::ptrdiff_t>(to),
              in.end());
    in.feed(to - from);
  };
  feed(0, 7);
  EXPECT_EQ(in.missing(), 1U) << "its prefix is not whole";
  feed(7, 8);
  EXPECT_EQ(in.missing(), 100U);
  feed(8, 107);
  EXPECT_EQ(in.missing(), 1U);
  feed(107, 130);
  EXPECT_EQ(in.missing(), 1U) << "it is whole, and another one has begun";
  const uint8_t* frame = nullptr;
  uint32_t bytes = 0;
  EXPECT_TRUE(in.next(&frame, &bytes));
  EXPECT_EQ(in.missing(), 300U - (130 - 108 - kStreamPrefixBytes));
}

TEST(StreamFrames, AnyCutsGiveTheSameFrames) {
  std::vector<Bytes> frames;
  for (const size_t size : {1, 2, 7, 8, 9, 999, 1000, 1000, 500, 500, 500, 1, 1000, 3, 20, 1000, 999})
    frames.push_back(pattern(static_cast<uint32_t>(frames.size()), size));
  const Bytes stream = stream_of(frames);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Reader reader;
    const size_t most = seed < 20 ? seed + 1 : 1 + random() % (2 * kMost);
    for (size_t at = 0; at < stream.size();) {
      const size_t size = seed < 20 ? most : 1 + random() % most;
      at += reader.take(stream.data() + at, std::min(size, stream.size() - at));
    }
    EXPECT_EQ(reader.got, frames) << "seed " << seed;
    EXPECT_TRUE(reader.in.is_empty());
    EXPECT_FALSE(reader.in.broken());
  }
}

// Whoever reads as much as is worth it reads whole frames, once it knows how long they are.
TEST(StreamFrames, EqualFramesAreNotCut) {
  StreamFrames in(kMost);
  Bytes room(4 * (kMost + kStreamPrefixBytes));
  const Bytes stream = stream_of(std::vector<Bytes>(100, pattern(1, 700)));
  size_t at = 0;
  const auto fill = [&] {
    in.use(room.data(), room.size());
    const size_t size = std::min(in.worth_reading(), stream.size() - at);
    std::copy_n(stream.data() + at, size, in.end());
    at += size;
    in.feed(size);
    const uint8_t* frame = nullptr;
    for (uint32_t bytes = 0; in.next(&frame, &bytes);) EXPECT_EQ(bytes, 700U);
  };
  fill();
  EXPECT_FALSE(in.is_empty()) << "of the first it knew nothing";
  while (at < stream.size()) {
    fill();
    EXPECT_TRUE(in.is_empty());
  }
}

TEST(StreamFrames, WhatIsNoFrameBreaksTheStreamAndOnlyThen) {  // [TCP-2]
  const Bytes good = on_the_wire(pattern(1, 30));
  const std::vector<std::vector<uint8_t>> bad = {
      {0x53, 1, 0, 0, 0, 0, 0, 0},        // no bytes
      {0x53, 1, 0, 0, 0, 0, 0x03, 0xe9},  // 1001
      {0x53, 1, 0, 0, 0xff, 0xff, 0xff, 0xff},
      {0x53, 1, 0, 0, 0x80, 0, 0, 1},
      {0x52, 1, 0, 0, 0, 0, 0, 1},
      {0x53, 2, 0, 0, 0, 0, 0, 1},
      {0x53, 1, 1, 0, 0, 0, 0, 1},
      {0x53, 1, 0, 1, 0, 0, 0, 1},
      {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'},
  };
  for (const std::vector<uint8_t>& prefix : bad) {
    Reader reader;
    Bytes stream = good;
    stream.insert(stream.end(), prefix.begin(), prefix.end());
    reader.take(stream.data(), good.size() + 7);
    EXPECT_FALSE(reader.in.broken()) << "a cut prefix says nothing";
    reader.take(stream.data() + good.size() + 7, 1);
    EXPECT_TRUE(reader.in.broken());
    EXPECT_EQ(reader.got.size(), 1U) << "what came before was a frame";
    const uint8_t* frame = nullptr;
    uint32_t bytes = 0;
    EXPECT_FALSE(reader.in.next(&frame, &bytes));
    EXPECT_TRUE(reader.in.broken());
  }
}

}  // namespace
}  // namespace switchml
