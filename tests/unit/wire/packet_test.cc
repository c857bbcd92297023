#include "wire/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "wire/checksum.h"

namespace switchml::wire {
namespace {

using Bytes = std::vector<uint8_t>;

/// The first byte of a packet of this version, less its kind.
constexpr int kThisVersion = kVersion << 4;

/// A copy in memory that ends where the frame ends, so that a sanitizer sees a read beyond it.
class Exact {
 public:
  Exact(const uint8_t* bytes, size_t size) : copy_(new uint8_t[size]), size_(size) {
    std::copy(bytes, bytes + size, copy_.get());
  }
  const uint8_t* data() const { return copy_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<uint8_t[]> copy_;
  size_t size_;
};

Bytes contribution(size_t payload_bytes) {
  Bytes frame(kHeaderBytes + payload_bytes, 0x5a);
  Header header;
  header.version = kVersion;
  header.kind = static_cast<uint8_t>(Kind::kContribution);
  header.flags = kFlagRepeat | static_cast<uint8_t>(Operation::kMax);
  header.job = 3;
  header.worker = 7;
  header.epoch = 0x01020304;
  header.slot = 12;
  header.exponent = 99;
  header.seq = 5;
  header.witness = 0xcafef00d;
  write_header(header, frame.data());
  return frame;
}

ParseError parse(const Bytes& frame, Kind expected = Kind::kContribution) {
  const Exact exact(frame.data(), frame.size());
  DataPacket packet;
  return parse_data(exact.data(), exact.size(), expected, &packet);
}

TEST(ParseData, ViewsAPacketInPlace) {
  const Bytes frame = contribution(256);
  DataPacket packet;
  ASSERT_EQ(parse_data(frame.data(), frame.size(), Kind::kContribution, &packet), ParseError::kNone);
  EXPECT_EQ(packet.header.job, 3);
  EXPECT_EQ(packet.header.worker, 7);
  EXPECT_EQ(packet.header.epoch, 0x01020304U);
  EXPECT_EQ(packet.header.slot, 12);
  EXPECT_EQ(packet.header.exponent, 99);
  EXPECT_EQ(packet.header.seq, 5U);
  EXPECT_EQ(packet.header.witness, 0xcafef00dU);
  EXPECT_EQ(packet.operation, Operation::kMax);
  EXPECT_EQ(packet.payload, frame.data() + 20);
  EXPECT_EQ(packet.words, 64U);
}

TEST(ParseData, TakesNoPayloadAndTheLargest) {
  EXPECT_EQ(parse(contribution(0)), ParseError::kNone);
  EXPECT_EQ(parse(contribution(kMaxPayloadBytes)), ParseError::kNone);
  EXPECT_EQ(parse(contribution(kMaxPayloadBytes + 4)), ParseError::kLength);
}

TEST(ParseData, EveryTruncationIsToldOrIsAPacket) {
  const Bytes whole = contribution(64);
  for (size_t size = 0; size <= whole.size(); ++size) {
    const ParseError expected = size < 20              ? ParseError::kShort
                                : (size - 20) % 4 != 0 ? ParseError::kLength
                                                       : ParseError::kNone;
    EXPECT_EQ(parse(Bytes(whole.begin(), whole.begin() + static_cast<long>(size))), expected) << size;
  }
}

TEST(ParseData, NamesWhatIsWrong) {
  Bytes frame = contribution(8);
  frame[0] = 0x21;
  EXPECT_EQ(parse(frame), ParseError::kOtherVersion);
  frame[0] = 0x01;
  EXPECT_EQ(parse(frame), ParseError::kOtherVersion);
  for (int kind = 0; kind < 16; ++kind) {
    frame[0] = static_cast<uint8_t>(kThisVersion | kind);
    EXPECT_EQ(parse(frame), kind == 1 ? ParseError::kNone : ParseError::kKind) << kind;
    EXPECT_EQ(parse(frame, Kind::kResult), kind == 2 ? ParseError::kNone : ParseError::kKind) << kind;
  }
  frame = contribution(8);
  for (int flags = 0; flags < 256; ++flags) {
    frame[1] = static_cast<uint8_t>(flags);
    EXPECT_EQ(parse(frame), flags % 4 <= 1 ? ParseError::kNone : ParseError::kOperation) << flags;
  }
  frame = contribution(8);
  std::fill(frame.begin() + 12, frame.begin() + 16, uint8_t{0});
  EXPECT_EQ(parse(frame), ParseError::kSeq);
}

TEST(ParseData, LeavesItsOutputAloneOnAnError) {
  Bytes frame = contribution(8);
  frame[0] = 0x21;
  DataPacket packet;
  packet.words = 77;
  EXPECT_NE(parse_data(frame.data(), frame.size(), Kind::kContribution, &packet), ParseError::kNone);
  EXPECT_EQ(packet.words, 77U);
  EXPECT_EQ(packet.payload, nullptr);
}

/// What docs/protocol.md asks of a data packet, put differently than in packet.cc.
bool is_data(const Bytes& f, uint8_t kind) {
  if (f.size() < 20 || f.size() > 20 + 64512 || f.size() % 4 != 0) return false;
  return f[0] == kThisVersion + kind && (f[1] & 2) == 0 && (f[12] | f[13] | f[14] | f[15]) != 0;
}

TEST(ParseData, AcceptsOfRandomBytesExactlyWhatItMust) {
  std::mt19937_64 random(20260101);
  size_t accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    Bytes frame(random() % 48);
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
    // Most are nearly right, so that each check decides often.
    if (!frame.empty() && random() % 4 != 0) frame[0] = static_cast<uint8_t>(kThisVersion | (random() % 4));
    if (frame.size() > 15 && random() % 8 == 0) std::fill(frame.begin() + 12, frame.begin() + 16, uint8_t{0});
    for (const Kind kind : {Kind::kContribution, Kind::kResult}) {
      const bool accepts = parse(frame, kind) == ParseError::kNone;
      ASSERT_EQ(accepts, is_data(frame, static_cast<uint8_t>(kind))) << "round " << round;
      accepted += accepts ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 1000U) << "the test did not reach what it is for";
}

// ---- exact packets ----

struct ExactFields {
  int type = 0;  // float32
  int operation = 0;
  int divisor = 1;
  uint32_t seq = 5;
};

Bytes exact(size_t bytes, const ExactFields& fields = {}, Kind kind = Kind::kExactContribution) {
  Bytes frame(kExactHeaderBytes + bytes, 0x5a);
  ExactHeader header;
  header.version = kVersion;
  header.kind = static_cast<uint8_t>(kind);
  header.job = 3;
  header.worker = 7;
  header.epoch = 0x01020304;
  header.slot = 12;
  header.type = static_cast<uint8_t>(fields.type);
  header.operation = static_cast<uint8_t>(fields.operation);
  header.divisor = static_cast<uint8_t>(fields.divisor);
  header.seq = fields.seq;
  header.call = 0xcafef00d;
  header.checksum = 0x12345678;
  write_exact_header(header, frame.data());
  return frame;
}

ParseError parse_as_exact(const Bytes& frame, Kind expected = Kind::kExactContribution) {
  const Exact exact(frame.data(), frame.size());
  ExactPacket packet;
  return parse_exact(exact.data(), exact.size(), expected, &packet);
}

/// The row of docs/protocol-exact.md about operations and types, as numbers.
bool is_operation(int type, int operation, int divisor) {
  if (type > 13 || operation > 9) return false;
  const bool floats = type <= 2 || type == 8 || type == 10 || type == 11;
  const bool blocks = type >= 12;
  if (operation == 9) return (type <= 2 || type == 8) && divisor >= 1 && divisor <= 128;
  if (operation == 8) return (type == 1 || type == 2 || type >= 10) && divisor >= 1 && divisor <= 128;
  if (blocks && operation != 3) return false;
  if (operation >= 5 && floats) return false;
  if (type == 9 && operation != 3 && operation < 5) return false;
  return divisor >= 1 && divisor <= (operation == 0 && floats ? 128 : 1);
}

TEST(ParseExact, ViewsAPacketInPlace) {
  const Bytes frame = exact(24, {8, 0, 128, 5});
  ExactPacket packet;
  ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
  EXPECT_EQ(packet.header.job, 3);
  EXPECT_EQ(packet.header.worker, 7);
  EXPECT_EQ(packet.header.epoch, 0x01020304U);
  EXPECT_EQ(packet.header.slot, 12);
  EXPECT_EQ(packet.header.divisor, 128);
  EXPECT_EQ(packet.header.seq, 5U);
  EXPECT_EQ(packet.header.call, 0xcafef00dU);
  EXPECT_EQ(packet.header.checksum, 0x12345678U);
  EXPECT_EQ(packet.operation, ReduceOp::kSum);
  EXPECT_EQ(packet.type, ElementType::kFloat64);
  EXPECT_EQ(packet.elements, frame.data() + 24);
  EXPECT_EQ(packet.bytes, 24U);
}

TEST(ParseExact, TakesEveryOperationOfTheTypesThatHaveIt) {
  int taken = 0;
  for (int type = 0; type < 16; ++type) {
    for (int operation = 0; operation < 16; ++operation) {
      for (int divisor = 0; divisor < 256; ++divisor) {
        const bool is = is_operation(type, operation, divisor);
        ASSERT_EQ(parse_as_exact(exact(0, {type, operation, divisor, 5})),
                  is ? ParseError::kNone : ParseError::kOperation)
            << "type " << type << ", operation " << operation << ", divisor " << divisor;
        taken += is ? 1 : 0;
      }
    }
  }
  // 6 types of floats: a sum with 128 divisors and four others. 5 of integers: eight. bool: none and three. Blocks of 2
  // types: none. 6 narrow types: a sum to float32. 4 types of floats: a sum of partial sums.
  EXPECT_EQ(taken, 6 * (128 + 4) + 5 * 8 + 4 + 2 + 6 * 128 + 4 * 128);
}

TEST(ParseExact, TakesWholeElementsUpToTheLargestPayload) {
  constexpr size_t kBytes[] = {4, 2, 2, 4, 1, 1, 2, 8, 8, 1};
  for (int type = 0; type < 10; ++type) {
    const ExactFields fields{type, type == 9 ? 6 : 0, 1, 5};
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{6}, size_t{8}, size_t{63},
                               kMaxPayloadBytes, kMaxPayloadBytes + 8}) {
      const bool whole = bytes % kBytes[type] == 0 && bytes <= kMaxPayloadBytes;
      EXPECT_EQ(parse_as_exact(exact(bytes, fields)), whole ? ParseError::kNone : ParseError::kLength)
          << bytes << " bytes of type " << type;
    }
    EXPECT_EQ(parse_as_exact(exact(0, {type, 3, 1, 5})), ParseError::kNone);
    EXPECT_EQ(parse_as_exact(exact(kBytes[type], {type, 3, 1, 5})), ParseError::kLength) << "no operation has none";
  }
}

// Of a contribution the result has to fit the largest payload too, and a result has elements of another size. [NSUM-4]
TEST(ParseExact, TakesOfSumsToFloat32WhatFitsBothWays) {
  constexpr size_t kRows[][3] = {{1, 2, 4}, {2, 2, 4}, {10, 1, 4}, {11, 1, 4}, {12, 65, 256}, {13, 65, 256}};
  for (const auto& [type, sent, received] : kRows) {
    const ExactFields fields{static_cast<int>(type), 8, 1, 5};
    const size_t most = kMaxPayloadBytes / received;
    for (const size_t count : {size_t{1}, size_t{3}, most, most + 1}) {
      SCOPED_TRACE(std::to_string(count) + " elements of type " + std::to_string(type));
      const ParseError right = count <= most ? ParseError::kNone : ParseError::kLength;
      EXPECT_EQ(parse_as_exact(exact(count * sent, fields)), right);
      EXPECT_EQ(parse_as_exact(exact(count * sent + 1, fields)),
                sent == 1 && count < most ? ParseError::kNone : ParseError::kLength);
      Bytes result = exact(count * received, fields);
      result[0] = kThisVersion | 6;
      EXPECT_EQ(parse_as_exact(result, Kind::kExactResult), right);
      result.push_back(0);
      EXPECT_EQ(parse_as_exact(result, Kind::kExactResult), ParseError::kLength);
    }
    const Bytes frame = exact(3 * sent, fields);
    ExactPacket packet;
    ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
    EXPECT_EQ(packet.count, 3U);
    EXPECT_EQ(packet.room, 3 * sent);
    const size_t few = kMostOfShortPayloads / received;
    for (const bool is_result : {false, true}) {
      for (const size_t count : {few, few + 1}) {
        Bytes one = exact(count * (is_result ? received : sent), fields);
        if (is_result) one[0] = kThisVersion | 6;
        const Kind kind = is_result ? Kind::kExactResult : Kind::kExactContribution;
        ASSERT_EQ(parse_exact(one.data(), one.size(), kind, &packet), ParseError::kNone);
        EXPECT_EQ(packet.room, count == few ? few * sent : count * received) << "the result of more has to fit";
      }
    }
  }
}

TEST(ParseExact, LeavesTheLengthOfPartialSumsToTheirReader) {  // [PART-1, PART-7]
  for (const size_t bytes : {size_t{0}, size_t{9}, size_t{63}, kMaxPayloadBytes, kMaxPayloadBytes + 1}) {
    const Bytes frame = exact(bytes, {0, 9, 1, 5});
    EXPECT_EQ(parse_as_exact(frame), bytes <= kMaxPayloadBytes ? ParseError::kNone : ParseError::kLength) << bytes;
    Bytes result = frame;
    result[0] = static_cast<uint8_t>(kVersion << 4 | static_cast<uint8_t>(Kind::kExactResult));
    const bool whole = bytes % 4 == 0 && bytes <= kMaxPayloadBytes;
    EXPECT_EQ(parse_as_exact(result, Kind::kExactResult), whole ? ParseError::kNone : ParseError::kLength) << bytes;
  }
}

TEST(ParseExact, NamesWhatIsWrong) {
  const Bytes whole = exact(8);
  for (size_t size = 0; size < kExactHeaderBytes; ++size) {
    EXPECT_EQ(parse_as_exact(Bytes(whole.begin(), whole.begin() + static_cast<long>(size))), ParseError::kShort);
  }
  Bytes frame = whole;
  for (int version = 0; version < 16; ++version) {
    frame[0] = static_cast<uint8_t>(version << 4 | 5);
    EXPECT_EQ(parse_as_exact(frame), version == kVersion ? ParseError::kNone : ParseError::kOtherVersion) << version;
  }
  for (int kind = 0; kind < 16; ++kind) {
    frame[0] = static_cast<uint8_t>(kThisVersion | kind);
    EXPECT_EQ(parse_as_exact(frame), kind == 5 ? ParseError::kNone : ParseError::kKind) << kind;
    EXPECT_EQ(parse_as_exact(frame, Kind::kExactResult), kind == 6 ? ParseError::kNone : ParseError::kKind) << kind;
  }
  EXPECT_EQ(parse_as_exact(exact(8, {0, 0, 1, 0})), ParseError::kSeq);
  frame = whole;
  for (int flags = 0; flags < 256; ++flags) {
    frame[1] = static_cast<uint8_t>(flags);
    // There are 8 bytes of a target, or of a trailer that does not fit.
    const bool is_short = (flags & (kFlagTarget | kFlagPacked)) != 0;
    EXPECT_EQ(parse_as_exact(frame), is_short ? ParseError::kLength : ParseError::kNone) << "flags " << flags;
  }
}

TEST(ParseExact, ViewsWhatIsPacked) {  // [ZERO-2, ZERO-3]
  Bytes frame = exact(0);
  frame[1] = kFlagPacked;
  EXPECT_EQ(parse_as_exact(frame), ParseError::kLength) << "not even a trailer";
  frame.insert(frame.end(), {1, 2, 3, 4, 0b01, 4, 0, 1, 0});  // of four float32 the first, a block by itself
  ExactPacket packet;
  ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
  EXPECT_EQ(packet.count, 4U);
  EXPECT_EQ(packet.bytes, 9U);
  ASSERT_TRUE(packet.packed.has_value());
  EXPECT_EQ(packet.packed->elements, frame.data() + kExactHeaderBytes);
  for (size_t size = kExactHeaderBytes; size < frame.size(); ++size) {
    EXPECT_EQ(parse_as_exact(Bytes(frame.begin(), frame.begin() + static_cast<long>(size))), ParseError::kLength);
  }
  frame[kExactHeaderBytes + 5] = 2;
  EXPECT_EQ(parse_as_exact(frame), ParseError::kLength) << "as it lies the chunk is shorter";
  frame[1] = 0;
  EXPECT_EQ(parse_as_exact(frame), ParseError::kLength) << "nine bytes are no float32";
}

TEST(ParseExact, ReadsTheTargetOfAContribution) {  // [RDMA-6]
  Bytes frame = exact(kTargetBytes + 8);
  frame[1] = kFlagTarget;
  write_target({0x0102030405060708, 0x0a0b0c0d, 8}, frame.data() + kExactHeaderBytes);
  ExactPacket packet;
  ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
  ASSERT_TRUE(packet.target.has_value());
  EXPECT_EQ(packet.target->address, 0x0102030405060708U);
  EXPECT_EQ(packet.target->key, 0x0a0b0c0dU);
  EXPECT_EQ(packet.target->bytes, 8U);
  EXPECT_EQ(packet.bytes, 8U);
  EXPECT_EQ(packet.elements, frame.data() + kExactHeaderBytes + kTargetBytes);
  for (size_t behind = 0; behind < kTargetBytes; ++behind) {
    EXPECT_EQ(parse_as_exact({frame.begin(), frame.begin() + static_cast<long>(kExactHeaderBytes + behind)}),
              ParseError::kLength);
  }
  EXPECT_EQ(parse_as_exact({frame.begin(), frame.end() - 8}), ParseError::kNone) << "one without elements";
  frame[1] = 0;
  ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
  EXPECT_FALSE(packet.target.has_value());
}

TEST(ParseExact, AResultHasNoTarget) {  // [RDMA-7]
  Bytes frame = exact(8, {}, Kind::kExactResult);
  frame[1] = kFlagTarget;
  ExactPacket packet;
  ASSERT_EQ(parse_exact(frame.data(), frame.size(), Kind::kExactResult, &packet), ParseError::kNone);
  EXPECT_FALSE(packet.target.has_value());
  EXPECT_EQ(packet.bytes, 8U);
}

TEST(ParseExact, LeavesItsOutputAloneOnAnError) {
  const Bytes wrong[] = {exact(7), exact(8, {0, 0, 1, 0}), exact(8, {0, 7, 1, 5}), exact(8, {3, 3, 1, 5})};
  for (const Bytes& frame : wrong) {
    ExactPacket packet;
    packet.bytes = 77;
    packet.header.job = 9;
    EXPECT_NE(parse_exact(frame.data(), frame.size(), Kind::kExactContribution, &packet), ParseError::kNone);
    EXPECT_EQ(packet.bytes, 77U);
    EXPECT_EQ(packet.header.job, 9);
    EXPECT_EQ(packet.elements, nullptr);
  }
}

Bytes request(size_t body_bytes, uint8_t version = kVersion) {
  Bytes frame(kControlBytes + body_bytes + kControlCheckBytes, 0x3c);
  Control control;
  control.version = version;
  control.kind = static_cast<uint8_t>(Kind::kRequest);
  control.type = static_cast<uint8_t>(Request::kJoin);
  control.status = 4;
  control.request_id = 0xabcd1234;
  write_control(control, frame.data());
  seal_control(frame.data(), kControlBytes + body_bytes);
  return frame;
}

TEST(ParseControl, ViewsAMessageInPlace) {
  const Bytes frame = request(16);
  ControlPacket packet;
  ASSERT_EQ(parse_control(frame.data(), frame.size(), Kind::kRequest, &packet), ParseError::kNone);
  EXPECT_EQ(packet.control.type, 2);
  EXPECT_EQ(packet.control.status, 4);
  EXPECT_EQ(packet.control.request_id, 0xabcd1234U);
  EXPECT_EQ(packet.body, frame.data() + 8);
  EXPECT_EQ(packet.body_bytes, 16U);
}

TEST(ParseControl, EveryTruncationIsTold) {
  const Bytes whole = request(16);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Exact exact(whole.data(), size);
    ControlPacket packet;
    const ParseError error = parse_control(exact.data(), size, Kind::kRequest, &packet);
    EXPECT_EQ(error, size < 12 ? ParseError::kShort : ParseError::kChecksum) << size;
    EXPECT_EQ(packet.body, nullptr);
  }
}

TEST(ParseControl, EveryDamagedBitIsTold) {  // [CTL-8]
  const Bytes whole = request(16);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes frame = whole;
    frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ 1U << bit % 8);
    ControlPacket packet;
    const ParseError expected = bit < 4   ? ParseError::kKind
                                : bit < 8 ? ParseError::kOtherVersion
                                          : ParseError::kChecksum;
    EXPECT_EQ(parse_control(frame.data(), frame.size(), Kind::kRequest, &packet), expected) << bit;
  }
}

TEST(ParseControl, TheFixedPartOfAnotherVersionIsRead) {
  const Bytes frame = request(3, 9);
  ControlPacket packet;
  EXPECT_EQ(parse_control(frame.data(), frame.size(), Kind::kRequest, &packet), ParseError::kOtherVersion);
  EXPECT_EQ(packet.control.version, 9);
  EXPECT_EQ(packet.control.request_id, 0xabcd1234U);
}

TEST(ParseControl, AcceptsOfRandomBytesExactlyWhatItMust) {
  std::mt19937_64 random(20260102);
  size_t accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    Bytes frame(random() % 24);
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
    if (!frame.empty() && random() % 4 != 0) frame[0] = static_cast<uint8_t>(kThisVersion | (random() % 6));
    const bool is_sealed = frame.size() >= kControlCheckBytes && random() % 4 != 0;
    if (is_sealed) seal_control(frame.data(), frame.size() - kControlCheckBytes);
    const Exact exact(frame.data(), frame.size());
    for (const Kind kind : {Kind::kRequest, Kind::kReply}) {
      ControlPacket packet;
      const bool accepts = parse_control(exact.data(), exact.size(), kind, &packet) == ParseError::kNone;
      ASSERT_EQ(accepts, frame.size() >= 12 && is_sealed && frame[0] == kThisVersion + static_cast<int>(kind))
          << "round " << round;
      accepted += accepts ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 1000U) << "the test did not reach what it is for";
}

TEST(ParseErrors, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const ParseError error :
       {ParseError::kNone, ParseError::kShort, ParseError::kOtherVersion, ParseError::kKind, ParseError::kLength,
        ParseError::kOperation, ParseError::kSeq, ParseError::kChecksum}) {
    names.insert(to_string(error));
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.count("?"), 0U);
}

TEST(Seq, SkipsZeroAndKeepsParityAtTheWrap) {
  EXPECT_EQ(next_seq(1), 2U);
  EXPECT_EQ(next_seq(0x7fffffff), 0x80000000U);
  EXPECT_EQ(next_seq(0xfffffffe), 0xffffffffU);
  EXPECT_EQ(next_seq(0xffffffff), 2U);
  uint32_t seq = 0xfffffff0;
  for (int i = 0; i < 40; ++i) {
    const uint32_t next = next_seq(seq);
    EXPECT_NE(next, 0U);
    EXPECT_NE(next % 2, seq % 2) << "the two versions of a slot take turns";
    EXPECT_TRUE(newer_seq(next, seq));
    seq = next;
  }
}

TEST(Seq, ComparesSerially) {
  EXPECT_FALSE(newer_seq(5, 5));
  EXPECT_TRUE(newer_seq(6, 5));
  EXPECT_FALSE(newer_seq(5, 6));
  EXPECT_TRUE(newer_seq(2, 0xffffffff));
  EXPECT_FALSE(newer_seq(0xffffffff, 2));
  EXPECT_TRUE(newer_seq(0x7fffffff + 5U, 5));
  EXPECT_FALSE(newer_seq(0x80000001 + 5U, 5)) << "half the number space away is older";
  std::mt19937 random(3);
  for (int i = 0; i < 10000; ++i) {
    const auto a = static_cast<uint32_t>(random());
    const auto ahead = static_cast<uint32_t>(random() % 0x7fffffff + 1);
    ASSERT_TRUE(newer_seq(a + ahead, a));
    ASSERT_FALSE(newer_seq(a, a + ahead));
  }
}

}  // namespace
}  // namespace switchml::wire
