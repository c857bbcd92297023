// The checksum of exact packets against values of another implementation: the `xxhash` module of PyPI (4.1.0), by the
// definition in docs/protocol-exact.md,
//   xxh3_64(elements, seed=xxh3_64(header, seed=session key)) mod 2^32, flag 4 and the checksum 0 in that header.
#include "wire/checksum.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "wire/packet.h"

namespace switchml::wire {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kKey = 0x0123456789abcdef;

ExactHeader header(uint8_t flags = kFlagDisagree) {
  ExactHeader h;
  h.version = 4;  // The known values have it, whatever the version is now.
  h.kind = static_cast<uint8_t>(Kind::kExactContribution);
  h.flags = flags;
  h.job = 9;
  h.worker = 7;
  h.epoch = 0x01020304;
  h.slot = 12;
  h.divisor = 1;
  h.seq = 5;
  h.call = 0xdeadbeef;
  return h;
}

Bytes sealed(size_t bytes, uint8_t flags = kFlagDisagree, uint64_t key = kKey) {
  Bytes frame(kExactHeaderBytes + bytes);
  for (size_t i = 0; i < bytes; ++i) frame[kExactHeaderBytes + i] = static_cast<uint8_t>(i * 37 + 11);
  seal_exact(header(flags), {key}, frame.data(), bytes);
  return frame;
}

bool intact(const Bytes& frame, uint64_t key = kKey) { return exact_intact(frame.data(), frame.size(), {key}); }

TEST(Checksum, IsWhatTheProtocolSays) {  // [EXACT-10]
  // One for each of XXH3's ways with short, longer and long texts.
  const std::pair<size_t, uint32_t> known[] = {
      {0, 0x23718c70},   {1, 0x7cdd1743},   {3, 0x0701f634},   {8, 0x44bf12c2},    {16, 0x4472c33c},   {24, 0x18b2f57e},
      {128, 0x92b61953}, {240, 0x8bc2c9fd}, {241, 0xe9fde556}, {1024, 0x098b9058}, {64512, 0x698ec432}};
  for (const auto& [bytes, expected] : known) {
    for (const uint8_t flags : {kFlagDisagree, static_cast<uint8_t>(kFlagDisagree | kFlagRepeat)}) {
      const Bytes frame = sealed(bytes, flags);
      EXPECT_EQ(read_exact_header(frame.data()).checksum, expected) << bytes << " bytes, flags " << int{flags};
      EXPECT_TRUE(intact(frame)) << bytes;
      Bytes head(kExactHeaderBytes);
      seal_exact(header(flags), {kKey}, head.data(), bytes, frame.data() + kExactHeaderBytes);
      EXPECT_TRUE(std::equal(head.begin(), head.end(), frame.begin())) << bytes << " bytes that lie elsewhere";
    }
  }
}

// Against the same module: xxh3_64(message) mod 2^32.
TEST(Checksum, OfAControlMessageIsWhatTheProtocolSays) {  // [CTL-8]
  const std::pair<size_t, uint32_t> known[] = {
      {8, 0x9be82671}, {28, 0xc40300bf}, {32, 0x0876efc6}, {48, 0x246caadf}, {72, 0x347a56cd}};
  for (const auto& [bytes, expected] : known) {
    Bytes frame(bytes + kControlCheckBytes);
    for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 37 + 11);
    ASSERT_EQ(seal_control(frame.data(), bytes), frame.size());
    EXPECT_EQ(read_control_check(frame.data() + bytes).checksum, expected) << bytes;
    EXPECT_TRUE(control_intact(frame.data(), frame.size()));
    frame[bytes / 2] ^= 1;
    EXPECT_FALSE(control_intact(frame.data(), frame.size()));
  }
}

TEST(Checksum, SealingWritesTheHeaderThatItIsGiven) {
  ExactHeader given = header();
  given.checksum = 0xffffffff;  // must not matter
  Bytes frame(kExactHeaderBytes);
  seal_exact(given, {kKey}, frame.data(), 0);
  EXPECT_EQ(frame, sealed(0));
  ExactHeader written = read_exact_header(frame.data());
  written.checksum = given.checksum;
  Bytes again(kExactHeaderBytes), before(kExactHeaderBytes);
  write_exact_header(written, again.data());
  write_exact_header(given, before.data());
  EXPECT_EQ(again, before);
}

TEST(Checksum, EveryFlippedBitIsNoticedButThatOfARetransmission) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{20}, size_t{200}}) {
    Bytes frame = sealed(bytes);
    for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      const auto mask = static_cast<uint8_t>(1U << bit % 8);
      frame[bit / 8] ^= mask;
      EXPECT_EQ(intact(frame), bit / 8 == 1 && mask == kFlagRepeat) << "bit " << bit << " of " << bytes << " bytes";
      frame[bit / 8] ^= mask;
    }
  }
}

TEST(Checksum, ElementsMoreOrLessAreNoticed) {
  Bytes frame = sealed(8);
  frame.push_back(0);
  EXPECT_FALSE(intact(frame));
  frame.resize(kExactHeaderBytes + 7);
  EXPECT_FALSE(intact(frame));
}

TEST(Checksum, MayBeOfHeaderAndTargetAlone) {  // [RDMA-5]
  const ChecksumRule over_rdma{kKey, false};
  for (const auto& [kind, flags] :
       {std::pair(Kind::kExactContribution, uint8_t{0}), std::pair(Kind::kExactContribution, kFlagTarget),
        std::pair(Kind::kExactResult, kFlagTarget)}) {
    ExactHeader given = header(flags);
    given.kind = static_cast<uint8_t>(kind);
    const size_t covered = kExactHeaderBytes + (has_target(given) ? kTargetBytes : 0);
    Bytes frame(kExactHeaderBytes + kTargetBytes + 100, 0x5a);
    seal_exact(given, over_rdma, frame.data(), frame.size() - kExactHeaderBytes);
    for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      const auto mask = static_cast<uint8_t>(1U << bit % 8);
      if (bit / 8 == 0 || (bit / 8 == 1 && (mask == kFlagTarget || mask == kFlagRepeat))) continue;
      frame[bit / 8] ^= mask;
      EXPECT_EQ(exact_intact(frame.data(), frame.size(), over_rdma), bit / 8 >= covered) << bit;
      frame[bit / 8] ^= mask;
    }
    EXPECT_FALSE(intact(frame)) << "elements are not covered";
  }
}

TEST(Checksum, AnotherKeyFails) {
  for (const uint64_t key : {uint64_t{0}, kKey + 1, kKey ^ (uint64_t{1} << 63)}) {
    EXPECT_FALSE(intact(sealed(16), key));
    EXPECT_TRUE(intact(sealed(16, 0, key), key));
  }
}

}  // namespace
}  // namespace switchml::wire
