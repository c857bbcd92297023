#include "shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "child.h"

namespace switchml::shm {
namespace {

constexpr size_t kSegmentBytes = 3 * 4096;

TEST(Segment, IsZeroedAndCannotChangeItsSize) {
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok()) << segment.status().to_string();
  EXPECT_EQ(segment->size(), kSegmentBytes);
  EXPECT_TRUE(std::all_of(segment->data(), segment->data() + kSegmentBytes, [](uint8_t byte) { return byte == 0; }));
  EXPECT_NE(::ftruncate(segment->fd(), 4096), 0);
  EXPECT_NE(::ftruncate(segment->fd(), 2 * kSegmentBytes), 0);
  EXPECT_NE(::fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, 0) << "no other program inherits it";
}

TEST(Segment, WhoAdoptsItSeesTheSameMemory) {
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok());
  auto other = Segment::adopt(Fd(::dup(segment->fd())), kSegmentBytes);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_NE(other->data(), segment->data());
  segment->data()[kSegmentBytes - 1] = 7;
  EXPECT_EQ(other->data()[kSegmentBytes - 1], 7);
}

// The first mapping is gone with the process that made it, as far as the memory can tell.
TEST(Segment, OutlivesWhoMadeItForThoseThatMapIt) {
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok());
  testing::Child child([&] {
    auto own = Segment::adopt(Fd(::dup(segment->fd())), kSegmentBytes);
    if (!own.ok()) return 1;
    segment->forget_fd();
    own->data()[1] = 2;
    return 0;
  });
  auto other = Segment::adopt(Fd(::dup(segment->fd())), kSegmentBytes);
  ASSERT_TRUE(other.ok());
  { const Segment gone = std::move(segment.value()); }
  other->data()[0] = 1;
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(other->data()[0], 1);
  EXPECT_EQ(other->data()[1], 2);
}

/// Whether a child of this process has something mapped at `address`.
bool child_has(const uint8_t* address) {
  testing::Child child([&] {
    unsigned char resident = 0;
    return ::mincore(const_cast<uint8_t*>(address), 1, &resident) == 0 ? 1 : 0;
  });
  return child.exit_code() == 1;
}

TEST(Segment, AChildThatIsForkedLaterDoesNotKeepIt) {
  const std::vector<uint8_t> ordinary(4 * 4096);
  const auto* page =
      reinterpret_cast<const uint8_t*>((reinterpret_cast<uintptr_t>(ordinary.data()) + 4095) / 4096 * 4096);
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok());
  EXPECT_TRUE(child_has(page));
  EXPECT_FALSE(child_has(segment->data()));
}

TEST(Segment, NeedsItsDescriptorNoMore) {
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok());
  const int fd = segment->fd();
  segment->forget_fd();
  EXPECT_EQ(segment->fd(), -1);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "it is closed";
  segment->data()[0] = 3;
  EXPECT_EQ(segment->data()[0], 3);
}

TEST(Segment, WhatIsNoneIsRefused) {
  auto segment = Segment::create(kSegmentBytes);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ(Segment::adopt(Fd(::dup(segment->fd())), kSegmentBytes + 4096).status().code(), Code::kMismatch);
  Fd unsealed(::memfd_create("test", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kSegmentBytes), 0);
  EXPECT_EQ(Segment::adopt(std::move(unsealed), kSegmentBytes).status().code(), Code::kMismatch) << "it could shrink";
  EXPECT_EQ(Segment::adopt(Fd(::open("/dev/null", O_RDWR)), kSegmentBytes).status().code(), Code::kMismatch);
}

TEST(Segment, TooMuchIsAnErrorThatSaysWhatIsAllowed) {
  for (const size_t bytes : {size_t{0}, Segment::kMaxBytes + 1, size_t{1} << 62}) {
    const auto segment = Segment::create(bytes);
    ASSERT_FALSE(segment.ok());
    EXPECT_EQ(segment.status().code(), Code::kInvalidArgument);
    for (const size_t number : {bytes, Segment::kMaxBytes}) {
      EXPECT_NE(segment.status().message().find(std::to_string(number)), std::string::npos)
          << segment.status().message();
    }
  }
}

}  // namespace
}  // namespace switchml::shm
