// Control requests as frames, through the whole switch.
#include <gtest/gtest.h>

#include "fixture.h"
#include "slots/slot_store.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml::softswitch {
namespace {

using wire::ReplyStatus;
using wire::Request;

Contribution words_of_worker_0(std::vector<int32_t> words) {
  Contribution c;
  c.words = std::move(words);
  return c;
}

TEST(SwitchControl, OpenGrantsAndCountsOnce) {  // [OPEN-1]
  Bench bench;
  const auto first = bench.open(ask_for(2, 2, 9, 1500));
  EXPECT_EQ(first.type, Request::kOpen);
  EXPECT_EQ(first.open.slots, 8);
  EXPECT_EQ(first.open.payload, 1408U);
  EXPECT_EQ(first.open.lease_ms, 1800000U) << "longer than a coffee break";
  EXPECT_EQ(bench.open(ask_for(2, 2, 9, 1500)).open.epoch, first.open.epoch);
  EXPECT_EQ(bench.sw.sessions(), 1);
  EXPECT_EQ(bench.sw.counters().sessions_opened.get(), 1U);
  EXPECT_EQ(bench.sw.counters().control_requests.get(), 2U);
}

TEST(SwitchControl, RefusalsCarryTheirReasonAndNoBody) {  // [OPEN-3, CTL-6]
  SwitchOptions options;
  options.max_jobs = 1;
  options.slot_memory_bytes = 1 << 16;
  Bench bench(options);
  EXPECT_EQ(bench.open(ask_for(200)).status, ReplyStatus::kTooManyWorkers);
  EXPECT_EQ(bench.open(ask_for(0)).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(bench.open(ask_for(2, 1, 8, 100)).status, ReplyStatus::kPayloadUnsupported);
  EXPECT_EQ(bench.open(ask_for(2, 1, 8, 64512)).status, ReplyStatus::kNoSlots);
  EXPECT_EQ(bench.open(ask_for(2, 1, 4, 256, 1)).status, ReplyStatus::kOk);
  EXPECT_EQ(bench.open(ask_for(2, 1, 4, 256, 2)).status, ReplyStatus::kNoJobs);
}

wire::Open by_card(uint16_t more = 0) {
  wire::Open open = ask_for(2);
  open.flags = static_cast<uint16_t>(wire::kOpenRdma | more);
  open.client_key = 700U + more;
  return open;
}

TEST(SwitchControl, OnlyASwitchWithACardTakesMembersThatComeByRdma) {  // [OPEN-7]
  Bench without;
  EXPECT_EQ(without.open(by_card()).status, ReplyStatus::kNoCard);
  EXPECT_EQ(without.open(ask_for(2)).open.flags & wire::kOpenRdma, 0);
  SwitchOptions options;
  options.has_card = true;
  Bench with(options);
  EXPECT_NE(with.open(ask_for(2)).open.flags & wire::kOpenRdma, 0) << "it says so to everybody";
  EXPECT_EQ(with.open(by_card(wire::kOpenStream)).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(with.open(by_card()).status, ReplyStatus::kOk);
}

TEST(SwitchControl, NoSwitchInSoftwareIsTheEndOfUnreliablePairs) {  // [RDMA-9]
  SwitchOptions options;
  options.has_card = true;
  Bench bench(options);
  wire::Open open = ask_for(2);
  open.flags = wire::kOpenUnreliable;
  EXPECT_EQ(bench.open(open).status, ReplyStatus::kNoCard);
  EXPECT_EQ(bench.open(ask_for(2)).open.flags & wire::kOpenUnreliable, 0);
}

TEST(SwitchControl, JoinsComeAsTheOpenSaid) {  // [JOIN-2, RDMA-2]
  SwitchOptions options;
  options.has_card = true;
  Bench bench(options);
  const wire::OpenReply granted = bench.open(by_card()).open;
  wire::Join join;
  join.session_key = granted.session_key;
  join.epoch = granted.epoch;
  join.job = granted.job;
  const Endpoint by_packets = endpoint(1);
  Endpoint by_rdma = by_packets;
  by_rdma.carrier = Carrier::kRdma;
  EXPECT_EQ(bench.sw.join(join, by_packets, Time{}).status, ReplyStatus::kBadRequest);
  const auto asked = bench.sw.join(join, by_rdma, Time{});
  EXPECT_EQ(asked.status, ReplyStatus::kProveAddress);
  join.cookie = asked.reply.cookie;
  EXPECT_EQ(bench.sw.join(join, by_rdma, Time{}).status, ReplyStatus::kOk);
}

/// Keeps what it is asked.
struct AskedToMeet : MeetTap {
  void meet(const wire::Join& asked, const wire::Introduction& its, uint32_t request_id,
            const Endpoint& from) override {
    worker = asked.worker;
    pair = its.queue_pair;
    id = request_id;
    asker = from;
  }
  int worker = -1;
  uint32_t pair = 0, id = 0;
  Endpoint asker;
};

TEST(SwitchControl, MeetsAreForWhoeverHasTheCard) {  // [MEET-3]
  wire::Membership member;
  member.worker = 1;
  wire::Introduction its;
  its.queue_pair = 5;
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = wire::build_meet(member, 0, its, 77, frame);
  Bench bench;
  EXPECT_TRUE(bench.put({frame, frame + size}, endpoint(1)).empty());
  EXPECT_EQ(bench.sw.counters().control_malformed.get(), 1U) << "no such type";
  AskedToMeet tap;
  bench.sw.answer_meets_by(&tap);
  EXPECT_TRUE(bench.put({frame, frame + size}, endpoint(1)).empty()) << "it is answered later";
  EXPECT_EQ(tap.worker, 1);
  EXPECT_EQ(tap.pair, 5U);
  EXPECT_EQ(tap.id, 77U);
  EXPECT_EQ(tap.asker, endpoint(1));
}

TEST(SwitchControl, AnotherVersionIsToldOurs) {
  Bench bench;
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = wire::build_open(ask_for(2), 1234, frame);
  frame[0] = static_cast<uint8_t>((7 << 4) | static_cast<int>(wire::Kind::kRequest));
  const auto sent = bench.put({frame, frame + size}, endpoint(1));
  ASSERT_EQ(sent.size(), 1U);
  ASSERT_EQ(sent[0].frame.size(), wire::kControlBytes);
  const wire::Control reply = wire::read_control(sent[0].frame.data());
  EXPECT_EQ(reply.version, wire::kVersion);
  EXPECT_EQ(reply.kind, static_cast<uint8_t>(wire::Kind::kReply));
  EXPECT_EQ(reply.status, static_cast<uint16_t>(ReplyStatus::kBadVersion));
  EXPECT_EQ(reply.request_id, 1234U);
  EXPECT_EQ(bench.sw.sessions(), 0);
}

TEST(SwitchControl, NoAnswerToAStrangerIsLongerThanItsQuestion) {  // [CTL-7]
  Bench bench;
  Job job(bench, 2);
  uint8_t frame[wire::kMaxControlBytes];
  const wire::Membership guessed{job.granted.job, job.granted.epoch, 1, 0};
  size_t (*const builders[])(const Job&, const wire::Membership&, uint8_t*) = {
      [](const Job&, const wire::Membership&, uint8_t* f) {
        return wire::build_open(ask_for(2, 1, 8, 1024, 99), 1, f);
      },
      [](const Job&, const wire::Membership&, uint8_t* f) { return wire::build_open(ask_for(0), 1, f); },
      [](const Job& j, const wire::Membership&, uint8_t* f) { return wire::build_join(j.member(0), 0, 1, f); },
      [](const Job&, const wire::Membership& m, uint8_t* f) { return wire::build_join(m, 0, 1, f); },
      [](const Job&, const wire::Membership& m, uint8_t* f) { return wire::build_close(m, 1, f); },
      [](const Job& j, const wire::Membership&, uint8_t* f) { return wire::build_probe(j.member(0), 0, 1, 1, f); },
  };
  for (const bool other_version : {false, true}) {
    for (const auto& build : builders) {
      const size_t size = build(job, guessed, frame);
      if (other_version) frame[0] ^= 0xf0;
      const auto sent = bench.put({frame, frame + size}, endpoint(77));
      ASSERT_EQ(sent.size(), 1U);
      EXPECT_LE(sent[0].frame.size(), size);
    }
  }
  EXPECT_EQ(bench.sw.counters().control_malformed.get(), 0U);
}

// Who opens a session, joins in the name of another host and repeats what is answered: that host gets no more bytes
// than were sent in its name.
TEST(SwitchControl, ASessionMakesNobodyReflectMoreThanIsSent) {  // [LOSS-2]
  for (const bool guesses : {false, true}) {
    Bench bench;
    const auto granted = bench.open(ask_for(1, 1, 4, 64512)).open;
    const Endpoint victim = endpoint(5);
    size_t sent = 0, received = 0;
    const auto send = [&](const std::vector<uint8_t>& frame) {
      sent += frame.size();
      for (const Sent& each : bench.put(frame, victim)) received += each.frame.size() * each.to.size();
    };
    wire::Membership member{granted.job, granted.epoch, granted.session_key, 0};
    uint8_t frame[wire::kMaxControlBytes];
    for (uint32_t id = 1; id < 4; ++id) {
      if (guesses) member.cookie = id;
      send({frame, frame + wire::build_join(member, 0, id, frame)});
    }
    send(contribution_frame(words_of_worker_0(std::vector<int32_t>(16128, 7)), granted.job, granted.epoch));
    for (int i = 0; i < 500; ++i) send(contribution_frame(words_of_worker_0({}), granted.job, granted.epoch));
    EXPECT_LE(received, sent);
    EXPECT_EQ(bench.sw.counters().dropped_worker.get(), 501U) << "nobody has joined";
  }
}

TEST(SwitchControl, MalformedRequestsAreDroppedAndCounted) {
  Bench bench;
  uint8_t frame[wire::kMaxControlBytes] = {};
  uint64_t malformed = 0;
  size_t (*const builders[])(uint8_t*) = {
      [](uint8_t* f) { return wire::build_open(ask_for(2), 1, f); },
      [](uint8_t* f) { return wire::build_join({}, 0, 1, f); },
      [](uint8_t* f) { return wire::build_close({}, 1, f); },
      [](uint8_t* f) { return wire::build_probe({}, 0, 1, 1, f); },
  };
  for (const auto& build : builders) {
    const size_t right = build(frame);
    for (size_t size = 1; size < sizeof frame; ++size) {
      if (size == right) continue;
      EXPECT_TRUE(bench.put({frame, frame + size}, endpoint(1)).empty()) << size;
      EXPECT_EQ(bench.sw.counters().control_malformed.get(), ++malformed);
    }
    // Also with a right checksum.
    for (size_t size = wire::kControlBytes; size < sizeof frame - wire::kControlCheckBytes; ++size) {
      if (size == right - wire::kControlCheckBytes) continue;
      uint8_t other[sizeof frame];
      std::copy(frame, frame + size, other);
      EXPECT_TRUE(bench.put({other, other + wire::seal_control(other, size)}, endpoint(1)).empty()) << size;
      EXPECT_EQ(bench.sw.counters().control_malformed.get(), ++malformed);
    }
  }
  for (const int type : {0, 5, 200, 255}) {
    const size_t size = wire::build_open(ask_for(2), 1, frame);
    frame[wire::kControlOffsetType] = static_cast<uint8_t>(type);
    wire::seal_control(frame, size - wire::kControlCheckBytes);
    EXPECT_TRUE(bench.put({frame, frame + size}, endpoint(1)).empty());
    EXPECT_EQ(bench.sw.counters().control_malformed.get(), ++malformed);
  }
  EXPECT_EQ(bench.sw.sessions(), 0);
}

TEST(SwitchControl, ProbeTellsWhoHasJoinedAndWhoHasContributed) {
  Bench bench;
  Job job(bench, 70);
  Contribution c;
  c.slot = 3;
  c.seq = 5;
  c.words = {1};
  for (const int worker : {0, 2, 69}) {
    c.worker = static_cast<uint8_t>(worker);
    job.put(c);
  }
  const auto reply = bench.probe(job.member(1), 3, 5, job.at(1));
  ASSERT_EQ(reply.status, ReplyStatus::kOk);
  EXPECT_EQ(reply.probe.slot, 3);
  EXPECT_EQ(reply.probe.seq, 5U);
  EXPECT_EQ(reply.probe.joined_low, ~uint64_t{0});
  EXPECT_EQ(reply.probe.joined_high, 0x3fU);
  EXPECT_EQ(reply.probe.contributed_low, 5U);
  EXPECT_EQ(reply.probe.contributed_high, 0x20U);
}

TEST(SwitchControl, ProbeOfUnseenCompleteAndReplacedUses) {
  Bench bench;
  Job job(bench, 2);
  const auto contributed = [&](uint32_t seq) {
    return bench.probe(job.member(0), 0, seq, job.at(0)).probe.contributed_low;
  };
  EXPECT_EQ(contributed(1), 0U);
  for (const uint32_t seq : {1U, 2U, 3U}) {
    for (uint8_t worker = 0; worker < 2; ++worker) {
      Contribution c;
      c.worker = worker;
      c.seq = seq;
      job.put(c);
    }
  }
  EXPECT_EQ(contributed(2), 3U) << "complete";
  EXPECT_EQ(contributed(1), 3U) << "replaced by 3";
  EXPECT_EQ(contributed(4), 0U) << "not yet seen";
  EXPECT_EQ(contributed(5), 0U) << "not yet seen";
}

TEST(SwitchControl, ProbeIsForMembersAndRealSlots) {
  Bench bench;
  Job job(bench, 2);
  auto stranger = job.member(0);
  EXPECT_EQ(bench.probe(stranger, 0, 1, endpoint(77)).status, ReplyStatus::kNotMember);
  EXPECT_EQ(bench.probe(stranger, 8, 1, job.at(0)).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(bench.probe(stranger, 65535, 1, job.at(0)).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(bench.probe(stranger, 0, 0, job.at(0)).status, ReplyStatus::kBadRequest);
  stranger.worker = 2;
  EXPECT_EQ(bench.probe(stranger, 0, 1, job.at(0)).status, ReplyStatus::kNotMember);
  stranger.epoch ^= 1;
  EXPECT_EQ(bench.probe(stranger, 0, 1, job.at(0)).status, ReplyStatus::kUnknownSession);
}

TEST(SwitchControl, CloseFreesAtTheLastMemberAndIsCounted) {
  Bench bench;
  Job job(bench, 2);
  EXPECT_GT(bench.sw.slot_memory_in_use(), 0U);
  EXPECT_EQ(bench.close(job.member(0)).status, ReplyStatus::kOk);
  EXPECT_EQ(bench.sw.sessions(), 1);
  EXPECT_EQ(bench.close(job.member(1)).status, ReplyStatus::kOk);
  EXPECT_EQ(bench.sw.sessions(), 0);
  EXPECT_EQ(bench.sw.slot_memory_in_use(), 0U);
  EXPECT_EQ(bench.sw.counters().sessions_closed.get(), 1U);
  EXPECT_EQ(bench.close(job.member(1)).status, ReplyStatus::kUnknownSession);
}

TEST(SwitchControl, WhereRoomIsWantedHalfOfTheLeaseIsSilenceEnough) {  // [LEASE-3]
  SwitchOptions options;
  options.lease = seconds(30);
  options.max_jobs = 3;
  options.client_jobs = 2;
  options.client_of = [](const Endpoint& from) { return from; };
  Bench bench(options);
  const auto open = [&bench](uint64_t key, int client) {
    return bench.open(ask_for(1, 1, 4, 256, key), endpoint(client)).status;
  };
  EXPECT_EQ(open(1, 900), ReplyStatus::kOk);
  bench.now += seconds(10);
  const wire::Reply heard = bench.open(ask_for(1, 1, 4, 256, 2), endpoint(900));
  EXPECT_EQ(heard.status, ReplyStatus::kOk);
  bench.now += seconds(5);
  EXPECT_EQ(open(3, 900), ReplyStatus::kQuota) << "both were heard within half of the lease";
  bench.now += milliseconds(1);
  EXPECT_EQ(open(4, 901), ReplyStatus::kOk) << "nothing is wanted of others: nobody ends";
  EXPECT_EQ(bench.sw.sessions(), 3);
  EXPECT_EQ(open(3, 900), ReplyStatus::kOk) << "the first one is ended for it";
  EXPECT_EQ(bench.sw.counters().sessions_expired.get(), 1U);
  EXPECT_EQ(open(5, 902), ReplyStatus::kNoJobs);
  bench.now += seconds(10);
  EXPECT_EQ(open(5, 902), ReplyStatus::kOk);
  EXPECT_EQ(bench.sw.counters().sessions_expired.get(), 2U);
  EXPECT_EQ(bench.join({heard.open.job, heard.open.epoch, heard.open.session_key, 0}, 0, endpoint(1)).status,
            ReplyStatus::kUnknownSession);
}

// All ranks stopped: a batch system does that.
TEST(SwitchControl, ASuspendedJobGoesOnIfNobodyWantedItsSlots) {
  Bench bench;
  Job job(bench, 2);
  Contribution c;
  c.words = {1};
  job.put(c);
  for (int second = 0; second < 1200; ++second) {
    bench.now += seconds(1);
    bench.sw.sweep(bench.now);
  }
  EXPECT_EQ(bench.open(ask_for(2, 1, 8, 1024, 9), endpoint(901)).status, ReplyStatus::kOk) << "there is room for both";
  c.worker = 1;
  EXPECT_EQ(job.put(c).size(), 1U) << "what rank 0 contributed before is there";
  EXPECT_EQ(bench.join(job.member(0), 0, job.at(0)).status, ReplyStatus::kOk);
  bench.now += seconds(1801);
  bench.sw.sweep(bench.now);
  EXPECT_EQ(bench.sw.sessions(), 0) << "the lease bounds it";
}

TEST(SwitchControl, OnlySoManySilentJobsEndAsAreWanted) {  // [LEASE-2]
  SwitchOptions options;
  options.slot_memory_bytes = 3 * 8 * SlotStore::slot_bytes(1024);
  Bench bench(options);
  Job first(bench, 1, 1, 8, 1024, 1, 0);
  bench.now += seconds(1);
  Job second(bench, 1, 1, 8, 1024, 2, 100);
  bench.now += seconds(1);
  Job third(bench, 1, 1, 4, 1024, 3, 200);
  const auto wants = [&bench](uint64_t key) { return bench.open(ask_for(1, 1, 8, 1024, key), endpoint(900)); };
  EXPECT_EQ(wants(4).open.slots, 4) << "all are heard";
  bench.now += seconds(20);
  EXPECT_EQ(wants(5).open.slots, 8) << "as many as it asks for, though there was room for fewer";
  EXPECT_EQ(bench.sw.counters().sessions_expired.get(), 1U) << "the longest silent";
  Contribution c;
  EXPECT_TRUE(first.put(c).empty());
  EXPECT_EQ(second.put(c).size(), 1U);
  EXPECT_EQ(third.put(c).size(), 1U);
}

TEST(SwitchControl, SilenceIsWhatTheOptionSays) {  // [LEASE-3]
  SwitchOptions options;
  options.max_jobs = 1;
  options.silence = seconds(60);
  Bench bench(options);
  EXPECT_EQ(bench.open(ask_for(1, 1, 4, 256, 1), endpoint(900)).status, ReplyStatus::kOk);
  bench.now += seconds(60);
  EXPECT_EQ(bench.open(ask_for(1, 1, 4, 256, 2), endpoint(900)).status, ReplyStatus::kNoJobs);
  bench.now += milliseconds(1);
  EXPECT_EQ(bench.open(ask_for(1, 1, 4, 256, 2), endpoint(900)).status, ReplyStatus::kOk);
}

// Its own share is short, and besides others hold what is left of it: room is made for that.
TEST(SwitchControl, OthersSilentJobsEndForWhatAClientMayStillHave) {
  SwitchOptions options;
  options.slot_memory_bytes = 32 * SlotStore::slot_bytes(1024);
  options.client_memory_bytes = 16 * SlotStore::slot_bytes(1024);
  options.client_of = [](const Endpoint& from) { return from; };
  Bench bench(options);
  const auto opens = [&bench](uint64_t key, int client, int slots) {
    return bench.open(ask_for(1, 1, slots, 1024, key), endpoint(client));
  };
  ASSERT_EQ(opens(1, 2, 16).open.slots, 16);
  ASSERT_EQ(opens(2, 3, 4).open.slots, 4);
  bench.now += seconds(20);
  ASSERT_EQ(opens(3, 1, 12).open.slots, 12);
  EXPECT_EQ(opens(4, 1, 8).open.slots, 4) << "what its client may have besides";
  EXPECT_EQ(bench.sw.counters().sessions_expired.get(), 1U) << "the longest silent";
}

TEST(SwitchControl, SweepEndsSilentSessionsOnly) {  // [LEASE-1]
  SwitchOptions options;
  options.lease = seconds(30);
  Bench bench(options);
  Job silent(bench, 1, 1, 8, 1024, 1, 0);
  Job probing(bench, 1, 1, 8, 1024, 2, 100);
  Job sending(bench, 1, 1, 8, 1024, 3, 200);
  bench.now += seconds(20);
  bench.probe(probing.member(0), 0, 1, probing.at(0));
  Contribution c;
  sending.put(c);
  bench.now += seconds(11);
  bench.sw.sweep(bench.now);
  EXPECT_EQ(bench.sw.sessions(), 2);
  EXPECT_EQ(bench.sw.counters().sessions_expired.get(), 1U);
  EXPECT_TRUE(silent.put(c).empty());
  EXPECT_EQ(bench.sw.counters().dropped_session.get(), 1U);
  bench.now += seconds(60);
  bench.sw.sweep(bench.now);
  EXPECT_EQ(bench.sw.sessions(), 0);
  EXPECT_EQ(bench.sw.slot_memory_in_use(), 0U);
}

}  // namespace
}  // namespace switchml::softswitch
