#include "wire/control.h"

#include <gtest/gtest.h>

#include <vector>

#include "wire/checksum.h"

namespace switchml::wire {
namespace {

const Membership kMember{7, 0xdeadbeef, 0x0123456789abcdef, 42, 0xfedcba9876543210};

ControlPacket parsed_request(const uint8_t* frame, size_t size) {
  ControlPacket packet;
  EXPECT_EQ(parse_control(frame, size, Kind::kRequest, &packet), ParseError::kNone);
  return packet;
}

/// Without a checksum yet, for which there is room.
std::vector<uint8_t> reply(Request type, ReplyStatus status, size_t body, uint8_t version = kVersion) {
  std::vector<uint8_t> frame(kControlBytes + body + (version == kVersion ? kControlCheckBytes : 0));
  Control control;
  control.version = version;
  control.kind = static_cast<uint8_t>(Kind::kReply);
  control.type = static_cast<uint8_t>(type);
  control.status = static_cast<uint16_t>(status);
  control.request_id = 99;
  write_control(control, frame.data());
  return frame;
}

ParseError sealed_and_parsed(std::vector<uint8_t> frame, Reply* out) {
  seal_control(frame.data(), frame.size() - kControlCheckBytes);
  return parse_reply(frame.data(), frame.size(), out);
}

TEST(Control, OpenIsWrittenAsTheSwitchReadsIt) {
  uint8_t frame[kMaxControlBytes];
  Open open;
  open.client_key = 5;
  open.workers = 128;
  open.shards = 3;
  open.slots = 96;
  open.payload = 8192;
  const auto packet = parsed_request(frame, build_open(open, 11, frame));
  EXPECT_EQ(packet.control.type, static_cast<uint8_t>(Request::kOpen));
  EXPECT_EQ(packet.control.request_id, 11U);
  ASSERT_EQ(packet.body_bytes, kOpenBytes);
  const Open read = read_open(packet.body);
  EXPECT_EQ(read.client_key, 5U);
  EXPECT_EQ(read.workers, 128);
  EXPECT_EQ(read.shards, 3);
  EXPECT_EQ(read.slots, 96);
  EXPECT_EQ(read.payload, 8192U);
}

TEST(Control, JoinCloseAndProbeCarryTheMember) {
  uint8_t frame[kMaxControlBytes];
  auto packet = parsed_request(frame, build_join(kMember, 15, 1, frame));
  EXPECT_EQ(packet.control.type, static_cast<uint8_t>(Request::kJoin));
  ASSERT_EQ(packet.body_bytes, kJoinBytes);
  const Join join = read_join(packet.body);
  EXPECT_EQ(join.session_key, kMember.session_key);
  EXPECT_EQ(join.epoch, kMember.epoch);
  EXPECT_EQ(join.job, kMember.job);
  EXPECT_EQ(join.worker, kMember.worker);
  EXPECT_EQ(join.shard, 15);
  EXPECT_EQ(join.cookie, kMember.cookie);

  packet = parsed_request(frame, build_close(kMember, 2, frame));
  EXPECT_EQ(packet.control.type, static_cast<uint8_t>(Request::kClose));
  ASSERT_EQ(packet.body_bytes, kCloseBytes);
  const Close close = read_close(packet.body);
  EXPECT_EQ(close.session_key, kMember.session_key);
  EXPECT_EQ(close.epoch, kMember.epoch);
  EXPECT_EQ(close.job, kMember.job);
  EXPECT_EQ(close.worker, kMember.worker);

  packet = parsed_request(frame, build_probe(kMember, 300, 0xfffffffe, 3, frame));
  EXPECT_EQ(packet.control.type, static_cast<uint8_t>(Request::kProbe));
  ASSERT_EQ(packet.body_bytes, kProbeBytes);
  const Probe probe = read_probe(packet.body);
  EXPECT_EQ(probe.epoch, kMember.epoch);
  EXPECT_EQ(probe.job, kMember.job);
  EXPECT_EQ(probe.worker, kMember.worker);
  EXPECT_EQ(probe.slot, 300);
  EXPECT_EQ(probe.seq, 0xfffffffe);
}

TEST(Control, AMeetIsAJoinAndAnIntroduction) {
  Introduction own;
  own.queue_pair = 0x123456;
  own.first_psn = 7;
  own.gid_high = 1;
  own.gid_low = 2;
  own.mtu = 5;
  own.service = static_cast<uint8_t>(Service::kUnreliableConnected);
  own.place_bits = 9;
  own.rkey = 3;
  own.address = 4;
  uint8_t frame[kMaxControlBytes];
  const auto packet = parsed_request(frame, build_meet(kMember, 3, own, 1, frame));
  EXPECT_EQ(packet.control.type, static_cast<uint8_t>(Request::kMeet));
  ASSERT_EQ(packet.body_bytes, kMeetBytes);
  EXPECT_EQ(read_join(packet.body).shard, 3);
  EXPECT_EQ(read_join(packet.body).cookie, kMember.cookie);
  const Introduction read = read_introduction(packet.body + kJoinBytes);
  EXPECT_EQ(read.queue_pair, 0x123456U);
  EXPECT_EQ(read.first_psn, 7U);
  EXPECT_EQ(read.gid_high, 1U);
  EXPECT_EQ(read.gid_low, 2U);
  EXPECT_EQ(read.mtu, 5);
  EXPECT_EQ(read.service, 1);
  EXPECT_EQ(read.place_bits, 9);
  EXPECT_EQ(read.rkey, 3U);
  EXPECT_EQ(read.address, 4U);

  Reply out;
  auto answer = reply(Request::kMeet, ReplyStatus::kProveAddress, kMeetReplyBytes);
  answer[kControlBytes + 1] = 9;
  write_introduction(own, answer.data() + kControlBytes + kJoinReplyBytes);
  ASSERT_EQ(sealed_and_parsed(answer, &out), ParseError::kNone);
  EXPECT_EQ(out.join.joined, 9);
  EXPECT_EQ(out.introduction.queue_pair, 0x123456U);
}

TEST(Control, RepliesGiveTheirBody) {
  Reply out;
  auto frame = reply(Request::kOpen, ReplyStatus::kOk, kOpenReplyBytes);
  OpenReply open;
  open.epoch = 17;
  open.lease_ms = 1234;
  write_open_reply(open, frame.data() + kControlBytes);
  ASSERT_EQ(sealed_and_parsed(frame, &out), ParseError::kNone);
  EXPECT_EQ(out.type, Request::kOpen);
  EXPECT_EQ(out.request_id, 99U);
  EXPECT_EQ(out.open.epoch, 17U);
  EXPECT_EQ(out.open.lease_ms, 1234U);

  frame = reply(Request::kJoin, ReplyStatus::kOk, kJoinReplyBytes);
  frame[kControlBytes + 1] = 9;
  ASSERT_EQ(sealed_and_parsed(frame, &out), ParseError::kNone);
  EXPECT_EQ(out.join.joined, 9);

  frame = reply(Request::kProbe, ReplyStatus::kOk, kProbeReplyBytes);
  ProbeReply probe;
  probe.slot = 4;
  probe.contributed_high = 1ULL << 63;
  write_probe_reply(probe, frame.data() + kControlBytes);
  ASSERT_EQ(sealed_and_parsed(frame, &out), ParseError::kNone);
  EXPECT_EQ(out.probe.slot, 4);
  EXPECT_EQ(out.probe.contributed_high, 1ULL << 63);

  frame = reply(Request::kClose, ReplyStatus::kUnknownSession, 0);
  ASSERT_EQ(sealed_and_parsed(frame, &out), ParseError::kNone);
  EXPECT_EQ(out.status, ReplyStatus::kUnknownSession);
}

TEST(Control, EveryWrongLengthOfAReplyIsRefused) {
  const std::pair<Request, size_t> bodies[] = {{Request::kOpen, kOpenReplyBytes},
                                               {Request::kJoin, kJoinReplyBytes},
                                               {Request::kClose, 0},
                                               {Request::kProbe, kProbeReplyBytes},
                                               {Request::kMeet, kMeetReplyBytes}};
  for (const auto& [type, bytes] : bodies) {
    for (size_t body = 0; body <= kProbeReplyBytes + 4; ++body) {
      const auto frame = reply(type, ReplyStatus::kOk, body);
      Reply out;
      EXPECT_EQ(sealed_and_parsed(frame, &out), body == bytes ? ParseError::kNone : ParseError::kLength)
          << to_string(type) << " with " << body;
    }
  }
  const auto frame = reply(Request::kClose, ReplyStatus::kOk, 0);
  for (size_t size = 0; size < kControlBytes; ++size) {
    Reply out;
    EXPECT_EQ(parse_reply(frame.data(), size, &out), ParseError::kShort);
  }
}

TEST(Control, UnknownTypesStatusesAndKindsAreRefused) {
  Reply out;
  for (int type : {0, 6, 255}) {
    const auto frame = reply(static_cast<Request>(type), ReplyStatus::kBadRequest, 0);
    EXPECT_EQ(sealed_and_parsed(frame, &out), ParseError::kKind) << type;
  }
  auto frame = reply(Request::kJoin, static_cast<ReplyStatus>(14), 0);
  EXPECT_EQ(sealed_and_parsed(frame, &out), ParseError::kKind);
  uint8_t request[kMaxControlBytes];
  const size_t size = build_join(kMember, 0, 1, request);
  EXPECT_EQ(parse_reply(request, size, &out), ParseError::kKind);
}

TEST(Control, AnotherVersionIsReadOnlyForItsNumber) {  // [CTL-8]
  Reply out;
  auto frame = reply(Request::kOpen, ReplyStatus::kBadVersion, 0, 9);
  ASSERT_EQ(parse_reply(frame.data(), frame.size(), &out), ParseError::kNone);
  EXPECT_EQ(out.status, ReplyStatus::kBadVersion);
  EXPECT_EQ(out.version, 9);
  for (const size_t body : {size_t{4}, kOpenReplyBytes}) {
    frame = reply(Request::kOpen, ReplyStatus::kBadVersion, body, 9);
    EXPECT_EQ(parse_reply(frame.data(), frame.size(), &out), ParseError::kOtherVersion) << "damaged: " << body;
  }
  frame = reply(Request::kClose, ReplyStatus::kOk, 0, 9);
  EXPECT_EQ(parse_reply(frame.data(), frame.size(), &out), ParseError::kOtherVersion);
}

// It answers a request that was damaged on its way.
TEST(Control, ThatASwitchOfThisVersionSpeaksAnotherIsNotTaken) {  // [CTL-9]
  Reply out;
  uint8_t frame[kMaxControlBytes];
  const size_t size = finish_reply({}, ReplyStatus::kBadVersion, frame);
  EXPECT_EQ(size, kControlBytes);
  EXPECT_EQ(parse_reply(frame, size, &out), ParseError::kShort);
  EXPECT_EQ(sealed_and_parsed(reply(Request::kOpen, ReplyStatus::kBadVersion, 0), &out), ParseError::kKind);
}

TEST(Control, EveryStatusHasAText) {
  for (uint16_t status = 0; status <= static_cast<uint16_t>(ReplyStatus::kNoCard); ++status) {
    EXPECT_STRNE(to_string(static_cast<ReplyStatus>(status)), "?") << status;
  }
}

TEST(Control, RepliesAreWrittenAsTheWorkerReadsThem) {
  uint8_t frame[kMaxControlBytes];
  const Control asked = parsed_request(frame, build_join(kMember, 0, 77, frame)).control;
  uint8_t answer[kMaxControlBytes] = {};
  JoinReply body;
  body.joined = 12;
  write_join_reply(body, answer + kControlBytes);
  Reply read;
  ASSERT_EQ(parse_reply(answer, finish_reply(asked, ReplyStatus::kOk, answer), &read), ParseError::kNone);
  EXPECT_EQ(read.type, Request::kJoin);
  EXPECT_EQ(read.request_id, 77U);
  EXPECT_EQ(read.join.joined, 12);
  const size_t bare = finish_reply(asked, ReplyStatus::kNotMember, answer);
  EXPECT_EQ(bare, kControlBytes + kControlCheckBytes) << "a refusal has no body";
  ASSERT_EQ(parse_reply(answer, bare, &read), ParseError::kNone);
  EXPECT_EQ(read.status, ReplyStatus::kNotMember);
  body.cookie = 77;
  write_join_reply(body, answer + kControlBytes);
  const size_t told = finish_reply(asked, ReplyStatus::kProveAddress, answer);
  ASSERT_EQ(parse_reply(answer, told, &read), ParseError::kNone);
  EXPECT_EQ(read.join.cookie, 77U);
  answer[kControlOffsetType] = static_cast<uint8_t>(Request::kProbe);
  seal_control(answer, told - kControlCheckBytes);
  EXPECT_EQ(parse_reply(answer, told, &read), ParseError::kKind) << "joins alone prove an address";
}

TEST(Control, WhatAnybodyMayAskIsNoShorterThanItsReply) {
  EXPECT_LE(kOpenReplyBytes, kOpenBytes);
  EXPECT_LE(kJoinReplyBytes, kJoinBytes);
}

TEST(Control, BodySizesOfRequests) {
  EXPECT_EQ(request_body_bytes(static_cast<uint8_t>(Request::kOpen)), kOpenBytes);
  EXPECT_EQ(request_body_bytes(static_cast<uint8_t>(Request::kJoin)), kJoinBytes);
  EXPECT_EQ(request_body_bytes(static_cast<uint8_t>(Request::kClose)), kCloseBytes);
  EXPECT_EQ(request_body_bytes(static_cast<uint8_t>(Request::kProbe)), kProbeBytes);
  EXPECT_EQ(request_body_bytes(0), 0U);
  EXPECT_EQ(request_body_bytes(static_cast<uint8_t>(Request::kMeet)), kMeetBytes);
  EXPECT_EQ(request_body_bytes(6), 0U);
  EXPECT_EQ(request_body_bytes(255), 0U);
}

}  // namespace
}  // namespace switchml::wire
