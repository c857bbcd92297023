#include "softswitch/switch.h"

#include <gtest/gtest.h>

#include <limits>

#include "fixture.h"

namespace switchml::softswitch {
namespace {

Contribution part(int worker, std::vector<int32_t> words, uint32_t seq = 1, int slot = 0) {
  Contribution c;
  c.worker = static_cast<uint8_t>(worker);
  c.words = std::move(words);
  c.seq = seq;
  c.slot = static_cast<uint16_t>(slot);
  return c;
}

TEST(Switch, TheLastContributionMulticastsTheResult) {
  Bench bench;
  Job job(bench, 3);
  EXPECT_TRUE(job.put(part(2, {1, 2, 3}, 1, 7)).empty());
  EXPECT_TRUE(job.put(part(0, {10, 20, 30}, 1, 7)).empty());
  const auto before = nonzero(bench.sw.counters());
  const auto sent = job.put(part(1, {100, 200, 300}, 1, 7));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].multicast);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{job.at(0), job.at(1), job.at(2)}));
  const auto result = result_of(sent[0].frame);
  EXPECT_EQ(result.words, (std::vector<int32_t>{111, 222, 333}));
  EXPECT_EQ(result.header.job, job.granted.job);
  EXPECT_EQ(result.header.epoch, job.granted.epoch);
  EXPECT_EQ(result.header.slot, 7);
  EXPECT_EQ(result.header.seq, 1U);
  EXPECT_EQ(result.header.worker, kAllWorkers);
  const size_t size = wire::kHeaderBytes + 12;
  EXPECT_EQ(changed(before, bench.sw.counters()), (Counts{{"packets_received", 1},
                                                          {"bytes_received", size},
                                                          {"packets_sent", 3},
                                                          {"bytes_sent", 3 * size},
                                                          {"contributions_added", 1},
                                                          {"uses_completed", 1},
                                                          {"elements_added", 3}}));
}

TEST(Switch, AloneAWorkerGetsItsOwnWordsBack) {
  Bench bench;
  Job job(bench, 1);
  const auto sent = job.put(part(0, {-5, 0, 5}));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(result_of(sent[0].frame).words, (std::vector<int32_t>{-5, 0, 5}));
}

TEST(Switch, AHundredAndTwentyEightWorkers) {
  Bench bench;
  Job job(bench, 128);
  std::vector<Sent> sent;
  for (int w = 127; w >= 0; --w) {
    EXPECT_TRUE(sent.empty());
    sent = job.put(part(w, {w, 1}));
  }
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to.size(), 128U);
  EXPECT_EQ(result_of(sent[0].frame).words, (std::vector<int32_t>{127 * 64, 128}));
}

TEST(Switch, DuplicatesAreDroppedUntilCompleteThenAnswered) {
  Bench bench;
  Job job(bench, 2);
  job.put(part(0, {1}));
  auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(job.put(part(0, {1})).empty());
  EXPECT_EQ(changed(before, bench.sw.counters()),
            (Counts{{"packets_received", 1}, {"bytes_received", 24}, {"duplicates_dropped", 1}}));
  const auto result = job.put(part(1, {2}));
  before = nonzero(bench.sw.counters());
  for (int worker = 0; worker < 2; ++worker) {
    const auto again = job.put(part(worker, {99}));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_FALSE(again[0].multicast);
    EXPECT_EQ(again[0].to, std::vector<Endpoint>{job.at(worker)});
    EXPECT_EQ(again[0].frame, result[0].frame) << "the very same bytes";
  }
  EXPECT_EQ(changed(before, bench.sw.counters()), (Counts{{"packets_received", 2},
                                                          {"bytes_received", 48},
                                                          {"packets_sent", 2},
                                                          {"bytes_sent", 48},
                                                          {"duplicates_answered", 2}}));
}

TEST(Switch, AnAnswerIsNoLongerThanTheDuplicate) {
  Bench bench;
  Job job(bench, 2);
  job.put(part(0, {1, 2, 3}));
  const auto result = job.put(part(1, {10, 20, 30}));
  for (size_t words = 0; words < 5; ++words) {
    const auto again = job.put(part(1, std::vector<int32_t>(words, 7)));
    ASSERT_EQ(again.size(), 1U);
    ASSERT_EQ(again[0].frame.size(), wire::kHeaderBytes + 4 * std::min<size_t>(words, 3));
    EXPECT_TRUE(std::equal(again[0].frame.begin(), again[0].frame.end(), result[0].frame.begin()));
  }
  EXPECT_EQ(bench.sw.counters().duplicates_answered.get(), 5U);
}

TEST(Switch, TheUseBeforeIsStillAnsweredAndOlderOnesAreStale) {
  Bench bench;
  Job job(bench, 2);
  std::vector<Sent> second;
  for (uint32_t seq = 1; seq <= 3; ++seq) {
    job.put(part(0, {static_cast<int32_t>(seq)}, seq));
    if (seq == 3) break;  // use 3 is incomplete: worker 1 may still lack the result of 2
    auto sent = job.put(part(1, {10}, seq));
    if (seq == 2) second = sent;
  }
  const auto again = job.put(part(1, {10}, 2));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].frame, second[0].frame);
  const auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(job.put(part(1, {10}, 1)).empty());
  EXPECT_EQ(changed(before, bench.sw.counters()),
            (Counts{{"packets_received", 1}, {"bytes_received", 24}, {"dropped_stale", 1}}));
  const auto third = job.put(part(1, {10}, 3));
  ASSERT_EQ(third.size(), 1U);
  EXPECT_EQ(result_of(third[0].frame).words, (std::vector<int32_t>{13}));
}

TEST(Switch, ANewerUseTakesAnIncompleteOneOver) {
  Bench bench;
  Job job(bench, 2);
  job.put(part(0, {1000}, 1));
  job.put(part(0, {1}, 3));
  const auto sent = job.put(part(1, {2}, 3));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(result_of(sent[0].frame).words, (std::vector<int32_t>{3}));
}

TEST(Switch, SequenceNumbersWrapPastZero) {
  Bench bench;
  Job job(bench, 2);
  uint32_t seq = 0xfffffffc;
  for (int i = 0; i < 8; ++i, seq = wire::next_seq(seq)) {
    job.put(part(0, {i}, seq));
    const auto sent = job.put(part(1, {i}, seq));
    ASSERT_EQ(sent.size(), 1U) << seq;
    EXPECT_EQ(result_of(sent[0].frame).header.seq, seq);
    EXPECT_EQ(result_of(sent[0].frame).words, (std::vector<int32_t>{2 * i}));
  }
  EXPECT_EQ(seq, 6U);
  EXPECT_TRUE(job.put(part(0, {1}, 0xfffffffe)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_stale.get(), 1U);
}

TEST(Switch, ShardsHaveTheirOwnSlotsAndAudience) {
  Bench bench;
  Job job(bench, 2, 2, 8);
  job.put(part(0, {1}, 1, 4), 1);
  const auto sent = job.put(part(1, {2}, 1, 4), 1);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{job.at(0, 1), job.at(1, 1)}));
  EXPECT_TRUE(job.put(part(0, {1}, 1, 4), 0).empty());
  EXPECT_TRUE(job.put(part(0, {1}, 1, 3), 1).empty());
  EXPECT_EQ(bench.sw.counters().dropped_slot.get(), 2U);
}

TEST(Switch, JobsDoNotTouchEachOther) {
  Bench bench;
  Job a(bench, 2, 1, 8, 1024, 1, 0);
  Job b(bench, 2, 1, 8, 256, 2, 100);
  a.put(part(0, {1}));
  b.put(part(0, {10}));
  const auto from_b = b.put(part(1, {20}));
  const auto from_a = a.put(part(1, {2}));
  EXPECT_EQ(result_of(from_a[0].frame).words, (std::vector<int32_t>{3}));
  EXPECT_EQ(result_of(from_b[0].frame).words, (std::vector<int32_t>{30}));
  EXPECT_EQ(from_a[0].to[0], a.at(0));
  EXPECT_EQ(from_b[0].to[0], b.at(0));
  // A member of one job who names the other is a stranger there.
  EXPECT_TRUE(bench.put(contribution_frame(part(0, {1}, 3), b.granted.job, b.granted.epoch), a.at(0)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_source.get(), 1U);
}

TEST(Switch, AnEndedSessionsPacketsNeverReachTheNextOne) {
  SwitchOptions options;
  options.max_jobs = 1;
  Bench bench(options);
  Job old(bench, 2);
  old.put(part(0, {1000}));
  bench.close(old.member(0));
  bench.close(old.member(1));
  Job fresh(bench, 2, 1, 8, 1024, 2);
  EXPECT_EQ(fresh.granted.job, old.granted.job);
  EXPECT_NE(fresh.granted.epoch, old.granted.epoch);
  EXPECT_TRUE(old.put(part(1, {1000})).empty());
  EXPECT_EQ(bench.sw.counters().dropped_session.get(), 1U);
  fresh.put(part(0, {1}));
  EXPECT_EQ(result_of(fresh.put(part(1, {2}))[0].frame).words, (std::vector<int32_t>{3}));
}

TEST(Switch, AResultGoesToTheAddressJoinedLast) {  // [JOIN-4]
  Bench bench;
  Job job(bench, 2);
  job.put(part(0, {1}));
  bench.join(job.member(0), 0, endpoint(50));
  const auto sent = job.put(part(1, {1}));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{endpoint(50), job.at(1)}));
  EXPECT_TRUE(job.put(part(0, {1}, 2)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_source.get(), 1U);
}

struct Drop {
  const char* counter;
  std::vector<uint8_t> (*make)(const Job& job);
  int from = 0;
};

std::vector<uint8_t> with_byte(const Job& job, size_t at, uint8_t value) {
  auto frame = contribution_frame(part(0, {1, 2}), job.granted.job, job.granted.epoch);
  frame[at] = value;
  return frame;
}

class Drops : public ::testing::TestWithParam<Drop> {};

TEST_P(Drops, AreCountedByReasonAndAnswerNothing) {
  Bench bench;
  Job job(bench, 2, 1, 8, 256);
  const auto frame = GetParam().make(job);
  const auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(bench.put(frame, endpoint(GetParam().from)).empty());
  Counts expected{{"packets_received", 1}, {GetParam().counter, 1}};
  if (!frame.empty()) expected["bytes_received"] = frame.size();
  EXPECT_EQ(changed(before, bench.sw.counters()), expected);
  // And the slot is as it was.
  job.put(part(0, {1}));
  EXPECT_EQ(result_of(job.put(part(1, {2}))[0].frame).words, (std::vector<int32_t>{3}));
}

INSTANTIATE_TEST_SUITE_P(
    Switch, Drops,
    ::testing::Values(
        Drop{"dropped_short", [](const Job&) { return std::vector<uint8_t>{}; }},
        Drop{"dropped_short", [](const Job&) { return std::vector<uint8_t>{0x51}; }},
        Drop{"dropped_short", [](const Job&) { return std::vector<uint8_t>(19, 0x51); }},
        Drop{"dropped_version", [](const Job& j) { return with_byte(j, 0, 0x21); }},
        Drop{"dropped_kind", [](const Job& j) { return with_byte(j, 0, 0x52); }},
        Drop{"dropped_kind", [](const Job& j) { return with_byte(j, 0, 0x54); }},
        Drop{"dropped_kind", [](const Job& j) { return with_byte(j, 0, 0x5f); }},
        Drop{"dropped_length",
             [](const Job& j) {
               auto frame = with_byte(j, 0, 0x51);
               frame.pop_back();
               return frame;
             }},
        Drop{"dropped_length",
             [](const Job& j) {
               return contribution_frame(part(0, std::vector<int32_t>(65)), j.granted.job, j.granted.epoch);
             }},
        Drop{"dropped_session", [](const Job& j) { return with_byte(j, 2, 0); }},
        Drop{"dropped_session", [](const Job& j) { return with_byte(j, 2, 200); }},
        Drop{"dropped_session",
             [](const Job& j) { return contribution_frame(part(0, {1}), j.granted.job, j.granted.epoch + 1); }},
        Drop{"dropped_session", [](const Job& j) { return contribution_frame(part(0, {1}), j.granted.job, 0); }},
        Drop{"dropped_worker", [](const Job& j) { return with_byte(j, 3, 2); }},
        Drop{"dropped_worker", [](const Job& j) { return with_byte(j, 3, kAllWorkers); }},
        Drop{"dropped_source", [](const Job& j) { return with_byte(j, 3, 0); }, 1},
        Drop{"dropped_source", [](const Job& j) { return with_byte(j, 3, 0); }, 500},
        Drop{"dropped_slot", [](const Job& j) { return with_byte(j, 9, 8); }},
        Drop{"dropped_slot", [](const Job& j) { return with_byte(j, 8, 0xff); }},
        Drop{"dropped_operation", [](const Job& j) { return with_byte(j, 1, 2); }},
        Drop{"dropped_operation", [](const Job& j) { return with_byte(j, 1, 3); }},
        Drop{"dropped_seq", [](const Job& j) { return with_byte(j, 15, 0); }}));

TEST(Switch, WholeChunksAreAllThatItTakesIfToldSo) {
  SwitchOptions options;
  options.whole_chunks = true;
  Bench bench(options);
  Job job(bench, 1, 1, 16, 256);
  EXPECT_EQ(job.granted.flags, wire::kOpenWholeChunks);
  EXPECT_EQ(job.put(part(0, std::vector<int32_t>(64, 5), 1)).size(), 1U);
  EXPECT_EQ(job.put(part(0, {}, 2)).size(), 1U);
  for (const size_t words : {size_t{1}, size_t{63}}) {
    const auto before = nonzero(bench.sw.counters());
    EXPECT_TRUE(job.put(part(0, std::vector<int32_t>(words, 5), 3)).empty());
    EXPECT_EQ(changed(before, bench.sw.counters()).at("dropped_length"), 1U);
  }
}

TEST(Switch, AMemberThatLeftOrHasNotJoinedIsNotHeard) {  // [CLOSE-1, DROP-10]
  Bench bench;
  const wire::Reply opened = bench.open(ask_for(2));
  wire::Membership zero{opened.open.job, opened.open.epoch, opened.open.session_key, 0};
  const auto frame = contribution_frame(part(0, {1}), zero.job, zero.epoch);
  EXPECT_TRUE(bench.put(frame, endpoint(0)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_worker.get(), 1U);
  wire::Membership one = zero;
  one.worker = 1;
  bench.join(zero, 0, endpoint(0));
  bench.join(one, 0, endpoint(1));
  bench.close(zero);
  EXPECT_TRUE(bench.put(frame, endpoint(0)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_worker.get(), 2U);
}

TEST(Switch, AFrameWithoutASenderIsNobodys) {
  Bench bench;
  Job job(bench, 2);
  EXPECT_TRUE(bench.put(contribution_frame(part(0, {1}), job.granted.job, job.granted.epoch), Endpoint{}).empty());
  EXPECT_EQ(bench.sw.counters().dropped_source.get(), 1U);
}

}  // namespace
}  // namespace switchml::softswitch
