// Bytes through a connection, plain and sealed, and what one at its middle can do.
#include "transport/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace switchml {
namespace {

using seal::ByteView;
using seal::StreamSeal;
using ::testing::HasSubstr;
using ::testing::Not;

ByteView view_of(const std::string& bytes) { return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}; }

const std::string kFirst = "sixteen letters!";

std::string letters(size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

std::pair<Fd, Fd> connection() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

/// The parameter: whether the door is sealed.
class ByteStreams : public ::testing::TestWithParam<bool> {
 protected:
  ByteStreams() {
    if (GetParam()) owner = std::make_unique<seal::StreamDoorOwner>(random_seal_key(), random_bytes);
    auto [left, right] = connection();
    here = in(std::move(left));
    there = ByteStream(std::move(right), owner.get());
  }
  ByteStream in(Fd fd) const {
    std::optional<seal::StreamDoor> door;
    if (owner) door = owner->door();
    return ByteStream(std::move(fd), door, view_of(kFirst));
  }
  /// All that comes until there is none. `room`: for each receive().
  std::string received(ByteStream& stream, size_t room = 2 * StreamSeal::kMost) {
    std::string all;
    std::vector<char> bytes(room);
    for (;;) {
      const ssize_t got = stream.receive(bytes.data(), bytes.size());
      last = got < 0 ? errno : 0;
      if (got <= 0) return all;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
  }

  std::unique_ptr<seal::StreamDoorOwner> owner;
  ByteStream here, there;
  int last = 0;  // What received() ended with.
};
INSTANTIATE_TEST_SUITE_P(Doors, ByteStreams, ::testing::Bool(),
                         [](const auto& sealed) { return sealed.param ? "Sealed" : "Plain"; });

TEST_P(ByteStreams, WhatTheyBeginWithComesByItself) {
  EXPECT_TRUE(here.owes());
  EXPECT_EQ(here.send(view_of("more")), 4);
  EXPECT_FALSE(here.owes());
  char first[16];
  EXPECT_EQ(there.receive(first, sizeof first), 16);
  EXPECT_EQ(std::string(first, 16), kFirst);
  EXPECT_EQ(received(there), "more");
  EXPECT_EQ(last, EAGAIN);
}

// [SEAL-34]
TEST_P(ByteStreams, ASealedDoorSaysNothingBeforeItHasKeys) {
  EXPECT_EQ(there.send(view_of("in the clear")), GetParam() ? -1 : 12);
  EXPECT_EQ(received(here), GetParam() ? "" : "in the clear");
}

TEST_P(ByteStreams, CarryPartsOfEverySizeBothWays) {
  here.send({});
  ASSERT_EQ(received(there), kFirst);
  for (const size_t size : {size_t{1}, size_t{32}, size_t{40}, StreamSeal::kMost - 1, StreamSeal::kMost,
                            StreamSeal::kMost + 1, 2 * StreamSeal::kMost}) {
    for (const bool back : {false, true}) {
      ByteStream& from = back ? there : here;
      const std::string all = letters(size);
      const ByteView bytes = view_of(all);
      const size_t head = std::min<size_t>(size, 32);
      const ssize_t taken = from.send({bytes.data, head}, {bytes.data + head, size - head});
      ASSERT_GT(taken, 0);
      std::string came = received(back ? here : there);
      while (from.owes()) {
        from.send({});
        came += received(back ? here : there);
      }
      EXPECT_TRUE(came == all.substr(0, static_cast<size_t>(taken))) << size;
      EXPECT_TRUE(taken == static_cast<ssize_t>(size) || !GetParam()) << "the kernel has room for less";
    }
  }
}

// The kernel takes what it has room for, and comes to its end in the middle of a piece.
TEST_P(ByteStreams, GoOnWhereTheKernelHadNoRoom) {
  const std::string all = letters(5 << 20);
  size_t sent = 0;
  std::string came;
  int refusals = 0;
  while (sent < all.size() || here.owes()) {
    const ssize_t taken = here.send(view_of(all.substr(sent, 300'000)));
    if (taken >= 0) sent += static_cast<size_t>(taken);
    if (taken >= 0) continue;
    ASSERT_EQ(errno, EAGAIN);
    ++refusals;
    came += received(there);
  }
  came += received(there);
  EXPECT_TRUE(came == kFirst + all);
  EXPECT_GT(refusals, 10);
}

TEST_P(ByteStreams, EndWhenTheOtherEndCloses) {
  here.send(view_of("last"));
  here = ByteStream();
  EXPECT_EQ(received(there), kFirst + "last");
  EXPECT_EQ(last, 0);
}

// ---- at the middle of a sealed one ----

class SealedByteStreams : public ByteStreams {
 protected:
  /// What goes over the wire of a connection that sends these, each in a piece.
  std::string recorded(const std::vector<std::string>& texts) const {
    auto [left, right] = connection();
    ByteStream stream = in(std::move(left));
    for (const std::string& text : texts) EXPECT_EQ(stream.send(view_of(text)), static_cast<ssize_t>(text.size()));
    std::string bytes(1 << 20, ' ');
    const ssize_t got = ::recv(right.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  /// What a door makes of such bytes; `last` says how it ended.
  std::string taken(const std::string& bytes, bool closes = false) {
    auto [left, right] = connection();
    EXPECT_EQ(::send(left.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    if (closes) left = Fd();
    ByteStream stream(std::move(right), owner.get());
    return received(stream);
  }
};
INSTANTIATE_TEST_SUITE_P(Doors, SealedByteStreams, ::testing::Values(true), [](const auto&) { return "Sealed"; });

constexpr size_t kBeforeFirst = seal::kGreetingBytes;
constexpr size_t kFirstPiece = 16 + StreamSeal::kExtraBytes;

TEST_P(SealedByteStreams, NothingIsReadable) {
  const std::string bytes = recorded({"a pattern", letters(1000)});
  for (const std::string& text : {kFirst.substr(0, 6), std::string("a pattern"), letters(6)}) {
    EXPECT_THAT(bytes, Not(HasSubstr(text)));
  }
  EXPECT_EQ(taken(bytes), kFirst + "a pattern" + letters(1000));
}

TEST_P(SealedByteStreams, ComeThroughHoweverTheyAreCut) {
  const std::string bytes = recorded({"one", letters(200), "three"});
  std::string came;
  auto [left, right] = connection();
  ByteStream stream(std::move(right), owner.get());
  for (const char byte : bytes) {
    ASSERT_EQ(::send(left.get(), &byte, 1, 0), 1);
    came += received(stream);
    ASSERT_EQ(last, EAGAIN);
  }
  EXPECT_EQ(came, kFirst + "one" + letters(200) + "three");
}

// Each byte of all that goes over the wire: whatever comes before it may open, and nothing of its piece or later. A
// length that grew waits for more, which is no piece when it comes.
TEST_P(SealedByteStreams, NothingOpensFromAChangedByteOn) {
  const std::string bytes = recorded({"one", "two", "three"});
  const std::string all = kFirst + "onetwothree";
  const std::vector<size_t> begins = {kBeforeFirst, kBeforeFirst + kFirstPiece, kBeforeFirst + kFirstPiece + 23,
                                      kBeforeFirst + kFirstPiece + 46};
  const std::vector<size_t> whole = {0, 16, 19, 22};
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    const size_t before = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), i) - begins.begin());
    EXPECT_EQ(taken(changed + std::string(StreamSeal::kMost * 2, 'x')),
              all.substr(0, before == 0 ? 0 : whole[before - 1]));
    EXPECT_EQ(last, ByteStream::kForged) << i;
  }
}

TEST_P(SealedByteStreams, APieceIsTakenOnceAndInItsOrder) {
  const std::string bytes = recorded({"one", "two"});
  const size_t begin = kBeforeFirst + kFirstPiece;
  const std::string start = bytes.substr(0, begin), one = bytes.substr(begin, 23), two = bytes.substr(begin + 23);
  EXPECT_EQ(taken(start + one + one + two), kFirst + "one");
  EXPECT_EQ(last, ByteStream::kForged);
  EXPECT_EQ(taken(start + two + one), kFirst);
  EXPECT_EQ(last, ByteStream::kForged);
  const std::string other = recorded({"six", "ten"});
  EXPECT_EQ(taken(start + one + other.substr(begin + 23)), kFirst + "one") << "of two connections";
  EXPECT_EQ(last, ByteStream::kForged);
  EXPECT_EQ(taken(other.substr(0, kBeforeFirst) + bytes.substr(kBeforeFirst)), "");
  EXPECT_EQ(last, ByteStream::kForged);
}

TEST_P(SealedByteStreams, ACutShowsButBetweenPieces) {
  const std::string bytes = recorded({"one"});
  for (size_t size = 1; size <= bytes.size(); ++size) {
    taken(bytes.substr(0, size), true);
    const bool between = size == kBeforeFirst || size == kBeforeFirst + kFirstPiece || size == bytes.size();
    EXPECT_EQ(last, between ? 0 : ByteStream::kCut) << size;
  }
}

TEST_P(SealedByteStreams, WhatHasNoRoomIsNotTaken) {
  here.send(view_of(letters(100)));
  EXPECT_EQ(received(there, 99), kFirst);
  EXPECT_EQ(last, ByteStream::kForged);
}

TEST_P(SealedByteStreams, PlainBytesAreForged) {
  EXPECT_EQ(taken(kFirst + letters(1000)), "");
  EXPECT_EQ(last, ByteStream::kForged);
  EXPECT_THAT(ByteStream::error_text(last), HasSubstr("altered, repeated or lost"));
  EXPECT_THAT(ByteStream::error_text(ByteStream::kCut), HasSubstr("cut within"));
}

TEST_P(SealedByteStreams, ADoorWithoutKeysIsNoConnection) {
  seal::StreamDoor door = owner->door();
  door.half.fill(0);
  EXPECT_FALSE(ByteStream(connection().first, door, view_of(kFirst)).valid());
}

}  // namespace
}  // namespace switchml
