// The bytes of every message, written out by hand here, against the generated code.
#include "wire/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace switchml::wire {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Layout, NumbersThatPeersRelyOn) {
  EXPECT_EQ(kVersion, 5);
  EXPECT_EQ(kDefaultPort, 48879);
  EXPECT_EQ(static_cast<int>(Kind::kContribution), 1);
  EXPECT_EQ(static_cast<int>(Kind::kResult), 2);
  EXPECT_EQ(static_cast<int>(Kind::kRequest), 3);
  EXPECT_EQ(static_cast<int>(Kind::kReply), 4);
  EXPECT_EQ(static_cast<int>(Kind::kExactContribution), 5);
  EXPECT_EQ(static_cast<int>(Kind::kExactResult), 6);
  EXPECT_EQ(static_cast<int>(Operation::kSum), 0);
  EXPECT_EQ(static_cast<int>(Operation::kMax), 1);
  EXPECT_EQ(kOperationMask, 3);
  EXPECT_EQ(kFlagRepeat, 4);
  EXPECT_EQ(kFlagDisagree, 8);
  EXPECT_EQ(kOpenWholeChunks, 1);
  EXPECT_EQ(kOpenExact, 2);
  EXPECT_EQ(kOpenStream, 4);
  EXPECT_EQ(static_cast<int>(Request::kOpen), 1);
  EXPECT_EQ(static_cast<int>(Request::kJoin), 2);
  EXPECT_EQ(static_cast<int>(Request::kClose), 3);
  EXPECT_EQ(static_cast<int>(Request::kProbe), 4);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kOk), 0);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kBadVersion), 1);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kBadRequest), 2);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kNoSlots), 3);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kNoJobs), 4);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kUnknownSession), 5);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kTooManyWorkers), 6);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kPayloadUnsupported), 7);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kNotMember), 8);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kControlled), 9);
  EXPECT_EQ(static_cast<int>(ReplyStatus::kQuota), 10);
}

TEST(Layout, Offsets) {
  EXPECT_EQ(kHeaderOffsetFlags, 1U);
  EXPECT_EQ(kHeaderOffsetJob, 2U);
  EXPECT_EQ(kHeaderOffsetWorker, 3U);
  EXPECT_EQ(kHeaderOffsetEpoch, 4U);
  EXPECT_EQ(kHeaderOffsetSlot, 8U);
  EXPECT_EQ(kHeaderOffsetExponent, 10U);
  EXPECT_EQ(kHeaderOffsetSeq, 12U);
  EXPECT_EQ(kHeaderOffsetWitness, 16U);
  EXPECT_EQ(kControlOffsetType, 1U);
  EXPECT_EQ(kControlOffsetStatus, 2U);
  EXPECT_EQ(kControlOffsetRequestId, 4U);
}

/// Writes `message` between guards and compares with `expected`; reads it back and writes that again.
template <typename Message>
void expect_bytes(const Message& message, Message (*read)(const uint8_t*), void (*write)(const Message&, uint8_t*),
                  const Bytes& expected) {
  for (const uint8_t fill : {uint8_t{0x00}, uint8_t{0xff}}) {  // no bit of the old content shines through
    Bytes frame(expected.size() + 2, fill);
    write(message, frame.data() + 1);
    EXPECT_EQ(Bytes(frame.begin() + 1, frame.end() - 1), expected);
    EXPECT_EQ(frame.front(), fill);
    EXPECT_EQ(frame.back(), fill);
  }
  Bytes again(expected.size());
  write(read(expected.data()), again.data());
  EXPECT_EQ(again, expected) << "read and write do not agree";
}

TEST(Layout, Header) {
  EXPECT_EQ(kHeaderBytes, 20U);
  Header m;
  m.version = 0x1;
  m.kind = 0x2;
  m.flags = 0x05;
  m.job = 0xa1;
  m.worker = 0xb2;
  m.epoch = 0x11223344;
  m.slot = 0x5566;
  m.exponent = 0x7788;
  m.seq = 0x99aabbcc;
  m.witness = 0xddeeff01;
  expect_bytes(m, read_header, write_header, {0x12, 0x05, 0xa1, 0xb2, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
                                              0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01});
}

TEST(Layout, ExactHeader) {
  EXPECT_EQ(kExactHeaderBytes, 24U);
  ExactHeader m;
  m.version = 0x1;
  m.kind = 0x5;
  m.flags = 0x0c;
  m.job = 0xa1;
  m.worker = 0xb2;
  m.epoch = 0x11223344;
  m.slot = 0x5566;
  m.type = 0x7;
  m.operation = 0x8;
  m.divisor = 0x99;
  m.seq = 0xaabbccdd;
  m.call = 0xeeff0102;
  m.checksum = 0x03040506;
  expect_bytes(m, read_exact_header, write_exact_header,
               {0x15, 0x0c, 0xa1, 0xb2, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x78, 0x99,
                0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06});
}

TEST(Layout, VersionAndKindKeepToTheirFourBits) {
  Header m;
  m.version = 0xf3;
  m.kind = 0xf4;
  uint8_t frame[kHeaderBytes];
  write_header(m, frame);
  EXPECT_EQ(frame[0], 0x34);
  EXPECT_EQ(read_header(frame).version, 3);
  EXPECT_EQ(read_header(frame).kind, 4);
}

TEST(Layout, Control) {
  EXPECT_EQ(kControlBytes, 8U);
  Control m;
  m.version = 0xf;
  m.kind = 0x3;
  m.type = 0x04;
  m.status = 0x0506;
  m.request_id = 0x0708090a;
  expect_bytes(m, read_control, write_control, {0xf3, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a});
}

TEST(Layout, ControlCheck) {
  EXPECT_EQ(kControlCheckBytes, 4U);
  ControlCheck m;
  m.checksum = 0x01020304;
  expect_bytes(m, read_control_check, write_control_check, {0x01, 0x02, 0x03, 0x04});
}

TEST(Layout, Open) {
  EXPECT_EQ(kOpenBytes, 24U);
  Open m;
  m.client_key = 0x0102030405060708;
  m.workers = 0x090a;
  m.shards = 0x0b0c;
  m.slots = 0x0d0e;
  m.flags = 0x0f10;
  m.payload = 0x11121314;
  m.padding = 0x15161718;
  expect_bytes(m, read_open, write_open, {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                                          0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18});
}

TEST(Layout, OpenReply) {
  EXPECT_EQ(kOpenReplyBytes, 24U);
  OpenReply m;
  m.session_key = 0x0102030405060708;
  m.epoch = 0x090a0b0c;
  m.job = 0x0d;
  m.flags = 0x0e;
  m.slots = 0x0f10;
  m.payload = 0x11121314;
  m.lease_ms = 0x15161718;
  expect_bytes(m, read_open_reply, write_open_reply,
               {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18});
}

TEST(Layout, Join) {
  EXPECT_EQ(kJoinBytes, 24U);
  Join m;
  m.session_key = 0x0102030405060708;
  m.epoch = 0x090a0b0c;
  m.job = 0x0d;
  m.worker = 0x0e;
  m.shard = 0x0f10;
  m.cookie = 0x1112131415161718;
  expect_bytes(m, read_join, write_join, {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                                          0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18});
}

TEST(Layout, JoinReply) {
  EXPECT_EQ(kJoinReplyBytes, 12U);
  JoinReply m;
  m.joined = 0x0102;
  m.reserved = 0x0304;
  m.cookie = 0x05060708090a0b0c;
  expect_bytes(m, read_join_reply, write_join_reply,
               {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c});
}

TEST(Layout, Close) {
  EXPECT_EQ(kCloseBytes, 16U);
  Close m;
  m.session_key = 0x0102030405060708;
  m.epoch = 0x090a0b0c;
  m.job = 0x0d;
  m.worker = 0x0e;
  m.reserved = 0x0f10;
  expect_bytes(m, read_close, write_close,
               {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10});
}

TEST(Layout, Probe) {
  EXPECT_EQ(kProbeBytes, 12U);
  Probe m;
  m.epoch = 0x01020304;
  m.job = 0x05;
  m.worker = 0x06;
  m.slot = 0x0708;
  m.seq = 0x090a0b0c;
  expect_bytes(m, read_probe, write_probe, {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c});
}

TEST(Layout, ProbeReply) {
  EXPECT_EQ(kProbeReplyBytes, 40U);
  ProbeReply m;
  m.slot = 0x0102;
  m.dropped_length = 0x0304;
  m.seq = 0x05060708;
  m.joined_low = 0x1112131415161718;
  m.joined_high = 0x2122232425262728;
  m.contributed_low = 0x3132333435363738;
  m.contributed_high = 0x4142434445464748;
  Bytes expected = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const int tens : {0x10, 0x20, 0x30, 0x40}) {
    for (int i = 1; i <= 8; ++i) expected.push_back(static_cast<uint8_t>(tens + i));
  }
  expect_bytes(m, read_probe_reply, write_probe_reply, expected);
}

TEST(Layout, Introduction) {
  EXPECT_EQ(kIntroductionBytes, 40U);
  Introduction m;
  m.queue_pair = 0x01020304;
  m.first_psn = 0x05060708;
  m.gid_high = 0x1112131415161718;
  m.gid_low = 0x2122232425262728;
  m.mtu = 0x31;
  m.service = 0x32;
  m.place_bits = 0x33;
  m.reserved = 0x34;
  m.rkey = 0x35363738;
  m.address = 0x4142434445464748;
  expect_bytes(m, read_introduction, write_introduction,
               {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
                0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34,
                0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48});
}

TEST(Layout, BaseTransport) {
  EXPECT_EQ(kRocePort, 4791);
  EXPECT_EQ(kOpcodeWriteOnly, 0x2a);
  EXPECT_EQ(kOpcodeWriteOnlyWithImmediate, 0x2b);
  EXPECT_EQ(kBaseTransportBytes, 12U);
  BaseTransport m;
  m.opcode = kOpcodeWriteOnlyWithImmediate;
  m.solicited = 1;
  m.pad = 2;
  m.transport_version = 5;
  m.partition = 0xfffe;
  m.congestion = 0x80;
  m.queue_pair = 0x010203;
  m.acknowledge = 1;
  m.reserved = 0x55;
  m.psn = 0x0a0b0c;
  expect_bytes(m, read_base_transport, write_base_transport,
               {0x2b, 0xa5, 0xff, 0xfe, 0x80, 0x01, 0x02, 0x03, 0xd5, 0x0a, 0x0b, 0x0c});
}

TEST(Layout, FieldsOfThreeBytesAreThreeBytes) {
  BaseTransport m;
  m.queue_pair = m.psn = 0xff010203;  // what does not fit is cut off
  uint8_t frame[kBaseTransportBytes];
  write_base_transport(m, frame);
  EXPECT_EQ(frame[kBaseTransportOffsetQueuePair - 1], 0);
  EXPECT_EQ(frame[kBaseTransportOffsetQueuePair + 3], 0);
  EXPECT_EQ(read_base_transport(frame).queue_pair, 0x010203U);
  EXPECT_EQ(read_base_transport(frame).psn, 0x010203U);
}

TEST(Layout, ExtendedTransportImmediateAndInvariantCheck) {
  EXPECT_EQ(kExtendedTransportBytes, 16U);
  EXPECT_EQ(kImmediateBytes, 4U);
  EXPECT_EQ(kInvariantCheckBytes, 4U);
  ExtendedTransport m;
  m.address = 0x0102030405060708;
  m.rkey = 0x090a0b0c;
  m.bytes = 0x0d0e0f10;
  expect_bytes(m, read_extended_transport, write_extended_transport,
               {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10});
  Immediate immediate;
  immediate.slot = 0x0102;
  immediate.seq_low = 0x0304;
  expect_bytes(immediate, read_immediate, write_immediate, {0x01, 0x02, 0x03, 0x04});
}

/// Any bytes read as a message and written again are the same bytes: no field overlaps another, none is missing.
template <typename Message>
void expect_round_trips(size_t size, Message (*read)(const uint8_t*), void (*write)(const Message&, uint8_t*)) {
  std::mt19937_64 random(size);
  for (int round = 0; round < 200; ++round) {
    Bytes bytes(size), again(size, 0xa5);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    write(read(bytes.data()), again.data());
    ASSERT_EQ(again, bytes);
  }
}

TEST(Layout, EveryMessageRoundTrips) {
  expect_round_trips(kHeaderBytes, read_header, write_header);
  expect_round_trips(kControlBytes, read_control, write_control);
  expect_round_trips(kControlCheckBytes, read_control_check, write_control_check);
  expect_round_trips(kOpenBytes, read_open, write_open);
  expect_round_trips(kOpenReplyBytes, read_open_reply, write_open_reply);
  expect_round_trips(kJoinBytes, read_join, write_join);
  expect_round_trips(kJoinReplyBytes, read_join_reply, write_join_reply);
  expect_round_trips(kCloseBytes, read_close, write_close);
  expect_round_trips(kProbeBytes, read_probe, write_probe);
  expect_round_trips(kProbeReplyBytes, read_probe_reply, write_probe_reply);
  expect_round_trips(kIntroductionBytes, read_introduction, write_introduction);
  expect_round_trips(kBaseTransportBytes, read_base_transport, write_base_transport);
  expect_round_trips(kExtendedTransportBytes, read_extended_transport, write_extended_transport);
  expect_round_trips(kImmediateBytes, read_immediate, write_immediate);
  expect_round_trips(kInvariantCheckBytes, read_invariant_check, write_invariant_check);
}

}  // namespace
}  // namespace switchml::wire
