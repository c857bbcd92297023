#include "session/detour.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/limits.h"
#include "thread_reducer.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes contribution(int worker, uint16_t slot, uint32_t seq, wire::Operation operation, std::vector<int32_t> words,
                   uint32_t witness) {
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.flags = static_cast<uint8_t>(operation);
  header.job = 4;
  header.worker = static_cast<uint8_t>(worker);
  header.epoch = 99;
  header.slot = slot;
  header.seq = seq;
  header.witness = witness;
  Bytes frame(wire::kHeaderBytes + 4 * words.size());
  wire::write_header(header, frame.data());
  for (size_t i = 0; i < words.size(); ++i) {
    wire::detail::store<uint32_t>(frame.data() + wire::kHeaderBytes + 4 * i, static_cast<uint32_t>(words[i]));
  }
  return frame;
}

void send(Transport& link, const Bytes& frame) {
  const TxFrame tx{frame.data(), static_cast<uint32_t>(frame.size()), nullptr};
  EXPECT_EQ(link.send(&tx, 1), 1U);
}

/// The next frame that comes; empty if none does within `patience`.
Bytes next(Transport& link, Duration patience = seconds(5)) {
  const Time end = monotonic_now() + patience;
  while (monotonic_now() < end) {
    RxFrame frame;
    if (link.receive(&frame, 1) == 1) {
      Bytes bytes(frame.data, frame.data + frame.size);
      link.release();
      return bytes;
    }
    link.wait(milliseconds(10));
  }
  return {};
}

std::vector<int32_t> words_of(const Bytes& frame) {
  std::vector<int32_t> words;
  for (size_t at = wire::kHeaderBytes; at + 4 <= frame.size(); at += 4) {
    words.push_back(static_cast<int32_t>(wire::detail::load<uint32_t>(frame.data() + at)));
  }
  return words;
}

struct Ranks {
  explicit Ranks(int size, int shards = 1) : meeting(std::make_shared<Meeting>(size)) {
    SessionParameters session;
    session.slots = 8 * shards;
    session.shards = shards;
    session.workers = size;
    for (int rank = 0; rank < size; ++rank) rosters.push_back(std::make_shared<Roster>(size));
    for (int rank = 0; rank < size; ++rank) {
      session.worker = rank;
      Detour::Callbacks callbacks;
      callbacks.on_failure = [](const Status& status) { ADD_FAILURE() << status.to_string(); };
      callbacks.tell_round = [this, rank](uint64_t number) {
        for (const auto& roster : rosters) roster->waits(rank, number);
      };
      detours.push_back(std::make_unique<Detour>(std::make_unique<ThreadReducer>(meeting), session,
                                                 rosters[static_cast<size_t>(rank)], callbacks));
      links.push_back(detours.back()->transports());
    }
  }
  Transport& link(int rank, int shard = 0) { return *links[static_cast<size_t>(rank)][static_cast<size_t>(shard)]; }

  std::shared_ptr<Meeting> meeting;
  std::vector<std::shared_ptr<Roster>> rosters;
  std::vector<std::unique_ptr<Detour>> detours;
  std::vector<std::vector<std::unique_ptr<Transport>>> links;
};

TEST(Detour, AnswersWithWhatASwitchWould) {
  Ranks ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    send(ranks.link(rank), contribution(rank, 5, 7, wire::Operation::kSum, {INT32_MAX, rank, -rank}, 10));
    send(ranks.link(rank), contribution(rank, 2, 1, wire::Operation::kMax, {-5 - rank, rank}, 0x80000000U));
  }
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Bytes> results = {next(ranks.link(rank)), next(ranks.link(rank))};
    std::sort(results.begin(), results.end(), [](const Bytes& a, const Bytes& b) {
      return wire::read_header(a.data()).slot < wire::read_header(b.data()).slot;
    });
    ASSERT_GE(results[0].size(), wire::kHeaderBytes);
    const wire::Header maximum = wire::read_header(results[0].data());
    EXPECT_EQ(maximum.kind, static_cast<uint8_t>(wire::Kind::kResult));
    EXPECT_EQ(maximum.flags, static_cast<uint8_t>(wire::Operation::kMax));
    EXPECT_EQ(maximum.worker, kAllWorkers);
    EXPECT_EQ(maximum.seq, 1U);
    EXPECT_EQ(maximum.witness, 0x80000000U) << "three times, modulo 2^32";
    EXPECT_EQ(words_of(results[0]), (std::vector<int32_t>{-5, 2}));
    const wire::Header sum = wire::read_header(results[1].data());
    EXPECT_EQ(sum.slot, 5);
    EXPECT_EQ(sum.seq, 7U);
    EXPECT_EQ(sum.job, 4);
    EXPECT_EQ(sum.epoch, 99U);
    EXPECT_EQ(sum.witness, 30U);
    EXPECT_EQ(words_of(results[1]), (std::vector<int32_t>{static_cast<int32_t>(3U * INT32_MAX), 3, -3}));
  }
}

TEST(Detour, NothingIsAnsweredBeforeAllHaveContributed) {
  Ranks ranks(3);
  for (const int rank : {0, 2}) send(ranks.link(rank), contribution(rank, 0, 1, wire::Operation::kSum, {1}, 1));
  EXPECT_TRUE(next(ranks.link(0), milliseconds(100)).empty());
  send(ranks.link(1), contribution(1, 1, 1, wire::Operation::kSum, {1}, 1));  // to another slot
  EXPECT_TRUE(next(ranks.link(0), milliseconds(100)).empty());
  send(ranks.link(1), contribution(1, 0, 1, wire::Operation::kSum, {1}, 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(words_of(next(ranks.link(rank))), std::vector<int32_t>{3});
  for (const int rank : {0, 2}) send(ranks.link(rank), contribution(rank, 1, 1, wire::Operation::kSum, {1}, 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(words_of(next(ranks.link(rank))), std::vector<int32_t>{3});
}

TEST(Detour, ARepeatedContributionCountsOnceAndIsAnsweredAgain) {
  Ranks ranks(2);
  const Bytes zero = contribution(0, 0, 1, wire::Operation::kSum, {20}, 1);
  send(ranks.link(0), zero);
  send(ranks.link(0), zero);
  send(ranks.link(1), contribution(1, 0, 1, wire::Operation::kSum, {1}, 1));
  EXPECT_EQ(words_of(next(ranks.link(0))), std::vector<int32_t>{21});
  EXPECT_TRUE(next(ranks.link(0), milliseconds(50)).empty());
  send(ranks.link(0), zero);
  EXPECT_EQ(words_of(next(ranks.link(0))), std::vector<int32_t>{21});
}

TEST(Detour, ContributionsOfDifferentLengthsAndOperationsDoNotBreakIt) {
  Ranks ranks(2);
  send(ranks.link(0), contribution(0, 0, 1, wire::Operation::kSum, {1, 2, 3}, 1));
  send(ranks.link(1), contribution(1, 0, 1, wire::Operation::kMax, {4}, 1));
  const Bytes zero = next(ranks.link(0));
  EXPECT_EQ(zero, next(ranks.link(1))) << "whatever it is, the witness refuses it everywhere";
  EXPECT_EQ(words_of(zero).size(), 3U);
  EXPECT_FALSE(ranks.meeting->sizes_differ);
}

TEST(Detour, ShardsHaveTheirOwnLinks) {
  Ranks ranks(2, 2);
  for (int rank = 0; rank < 2; ++rank) {
    send(ranks.link(rank, 1), contribution(rank, 8, 1, wire::Operation::kSum, {8}, 1));
    send(ranks.link(rank, 0), contribution(rank, 7, 1, wire::Operation::kSum, {7}, 1));
  }
  EXPECT_EQ(words_of(next(ranks.link(1, 0))), std::vector<int32_t>{14});
  EXPECT_EQ(words_of(next(ranks.link(1, 1))), std::vector<int32_t>{16});
}

/// What an engine that asks is told: {who is joined, who has contributed}.
std::pair<uint64_t, uint64_t> probed(Transport& link) {
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = wire::build_probe({4, 99, 1, 0}, 0, 1, 77, frame);
  send(link, Bytes(frame, frame + size));
  const Bytes answer = next(link);
  wire::Reply reply;
  EXPECT_EQ(wire::parse_reply(answer.data(), answer.size(), &reply), wire::ParseError::kNone);
  EXPECT_EQ(reply.request_id, 77U);
  return {reply.probe.joined_low, reply.probe.contributed_low};
}

TEST(Detour, AnswersWhomItWaitsFor) {
  Ranks ranks(3);
  for (const int rank : {0, 2}) send(ranks.link(rank), contribution(rank, 0, 1, wire::Operation::kSum, {1}, 1));
  std::this_thread::sleep_for(milliseconds(50));  // both are in the first round
  EXPECT_EQ(probed(ranks.link(0)), std::make_pair(uint64_t{0b111}, uint64_t{0b001})) << "rank 2 has said nothing yet";
  EXPECT_EQ(probed(ranks.link(2)), std::make_pair(uint64_t{0b111}, uint64_t{0b101}));
  EXPECT_EQ(probed(ranks.link(0)), std::make_pair(uint64_t{0b111}, uint64_t{0b101}));
  ranks.rosters[0]->leaves(1);
  ranks.rosters[0]->leaves(7);  // there is none
  EXPECT_EQ(probed(ranks.link(0)), std::make_pair(uint64_t{0b101}, uint64_t{0b101}));
  send(ranks.link(1), contribution(1, 0, 1, wire::Operation::kSum, {1}, 1));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(words_of(next(ranks.link(rank))), std::vector<int32_t>{3});
}

TEST(Detour, EndsWhileItWaitsForOthers) {
  Ranks ranks(2);
  send(ranks.link(0), contribution(0, 0, 1, wire::Operation::kSum, {1}, 1));
  std::this_thread::sleep_for(milliseconds(20));
  ranks.detours.clear();
  send(ranks.link(0), contribution(0, 0, 2, wire::Operation::kSum, {1}, 1));
  EXPECT_TRUE(next(ranks.link(0), milliseconds(20)).empty());
}

}  // namespace
}  // namespace switchml
