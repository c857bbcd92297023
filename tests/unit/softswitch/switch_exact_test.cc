// Exact sessions through the whole switch: who gets one, what it takes, and what comes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "exact.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {
namespace {

using Floats = std::vector<float>;

/// An integer contribution of two words.
Contribution words(int worker) {
  Contribution c;
  c.worker = static_cast<uint8_t>(worker);
  c.words = {1, 2};
  return c;
}

// ---- who gets one ----

TEST(ExactSession, IsGrantedToWhoAsks) {  // [EXACT-1]
  Bench bench;
  EXPECT_EQ(bench.open(ask_for(2)).open.flags, 0);
  EXPECT_EQ(bench.open(ask_exact(ask_for(2, 1, 8, 1024, 2))).open.flags, wire::kOpenExact);
  EXPECT_EQ(bench.open(ask_exact(ask_for(2, 1, 8, 1024, 2))).open.flags, wire::kOpenExact) << "asked again";
}

TEST(ExactSession, IsNotGrantedByASwitchOfWholeChunks) {
  SwitchOptions options;
  options.whole_chunks = true;
  Bench bench(options);
  EXPECT_EQ(bench.open(ask_exact(ask_for(2))).open.flags, wire::kOpenWholeChunks);
}

TEST(ExactSession, IsNeverWhatAControllerInstalls) {  // [EXACT-2]
  Bench bench;
  InstalledSession installed;
  installed.job = 4;
  installed.epoch = 5;
  installed.slots = 8;
  installed.payload_bytes = 1024;
  installed.members = WorkerSet::first(1);
  ASSERT_TRUE(bench.sw.install(installed, bench.now).ok());
  ASSERT_TRUE(bench.sw.set_member(4, 5, 0, -1, endpoint(0)).ok());
  EXPECT_TRUE(bench.put(exact_frame(floats(0, {1}), 4, 5, {}), endpoint(0)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_kind.get(), 1U);
}

TEST(ExactSession, ElementsAreTheSealsToCheck) {  // [SEAL-19]
  SwitchOptions options;
  options.sealed = true;
  Bench bench(options);
  ExactJob exact(bench, 2);
  const wire::ChecksumRule rule{exact.job.granted.session_key, false};
  auto frame = exact_frame(floats(0, {1, 2}), exact.job.granted.job, exact.job.granted.epoch, rule);
  frame[wire::kExactHeaderOffsetSlot + 1] ^= 1;
  EXPECT_TRUE(exact.put(frame, 0).empty());
  EXPECT_EQ(bench.sw.counters().dropped_checksum.get(), 1U) << "the header is covered";
  frame[wire::kExactHeaderOffsetSlot + 1] ^= 1;
  frame.back() ^= 1;
  exact.put(frame, 0);
  EXPECT_EQ(bench.sw.counters().dropped_checksum.get(), 1U);
  EXPECT_EQ(bench.sw.counters().contributions_added.get(), 1U);
}

TEST(ExactSession, PaysForWhatItKeeps) {
  SwitchOptions options;
  options.slot_memory_bytes = 56 * SlotStore::slot_bytes(1024);
  Bench bench(options);
  const auto integers = bench.open(ask_for(8, 1, 16, 1024, 1)).open;
  EXPECT_EQ(integers.slots, 16);
  EXPECT_EQ(bench.sw.slot_memory_in_use(), 16 * SlotStore::slot_bytes(1024));
  // What is left would be 40 slots of integers, and is less than 16 of slots that keep eight contributions each.
  const auto exact = bench.open(ask_exact(ask_for(8, 1, 16, 1024, 2))).open;
  const size_t left = options.slot_memory_bytes - 16 * SlotStore::slot_bytes(1024);
  EXPECT_EQ(exact.slots, left / SlotStore::slot_bytes(1024, 8));
  EXPECT_LT(exact.slots, 16);
  EXPECT_GE(SlotStore::slot_bytes(1024, 8), SlotStore::slot_bytes(1024) + 8 * 1024);
  EXPECT_EQ(bench.sw.slot_memory_in_use(),
            16 * SlotStore::slot_bytes(1024) + exact.slots * SlotStore::slot_bytes(1024, 8));
  wire::Membership last{exact.job, exact.epoch, exact.session_key, 0};
  EXPECT_EQ(bench.close(last).status, wire::ReplyStatus::kOk);
  EXPECT_EQ(bench.sw.slot_memory_in_use(), 16 * SlotStore::slot_bytes(1024));
}

TEST(ExactSession, IsRefusedWhereItsLeastSlotsDoNotFit) {
  SwitchOptions options;
  options.slot_memory_bytes = 4 * SlotStore::slot_bytes(1024, 8) - 1;
  Bench bench(options);
  EXPECT_EQ(bench.open(ask_exact(ask_for(8))).status, wire::ReplyStatus::kNoSlots);
  EXPECT_EQ(bench.open(ask_exact(ask_for(7))).status, wire::ReplyStatus::kOk);
}

// ---- what it takes ----

TEST(ExactSwitch, KindsOfTheOtherSortAreDropped) {
  Bench bench;
  ExactJob exact(bench, 2);
  Job integers(bench, ask_for(2, 1, 8, 1024, 2), 100);
  auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(exact.job.put(words(0)).empty());
  const auto foreign =
      exact_frame(floats(0, {1}), integers.granted.job, integers.granted.epoch, {integers.granted.session_key});
  EXPECT_TRUE(bench.put(foreign, integers.at(0)).empty());
  auto result = exact.frame(floats(0, {1}));
  result[0] = 0x56;
  EXPECT_TRUE(bench.put(result, exact.job.at(0)).empty()) << "an exact result";
  result[0] = 0x59;
  EXPECT_TRUE(bench.put({result.begin(), result.begin() + 20}, exact.job.at(0)).empty()) << "no kind has this header";
  const auto after = changed(before, bench.sw.counters());
  EXPECT_EQ(after.at("dropped_kind"), 4U);
  EXPECT_EQ(after.size(), 3U) << "packets and bytes received besides";
}

using Frame = std::vector<uint8_t>;
using Header = wire::ExactHeader;

void seal_again(const ExactJob& job, Frame* frame) {
  wire::seal_exact(wire::read_exact_header(frame->data()), {job.job.granted.session_key}, frame->data(),
                   frame->size() - wire::kExactHeaderBytes);
}

/// What is wrong with a packet: its sealed header, its sealed length, bytes under the seal, or the worker it comes
/// from.
struct ExactDrop {
  const char* counter;
  void (*header)(Header*);
  size_t bytes = wire::kExactHeaderBytes + 8;
  void (*damage)(Frame*) = [](Frame*) {};
  int from = 0;
};

class ExactDrops : public ::testing::TestWithParam<ExactDrop> {};

TEST_P(ExactDrops, AreCountedByReasonAndAnswerNothing) {
  Bench bench;
  ExactJob job(bench, 2, 8, 256);
  Frame frame = job.frame(floats(0, {99, 98}));
  Header header = wire::read_exact_header(frame.data());
  if (GetParam().header != nullptr) GetParam().header(&header);
  wire::write_exact_header(header, frame.data());
  frame.resize(GetParam().bytes);
  seal_again(job, &frame);
  GetParam().damage(&frame);
  const auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(bench.put(frame, endpoint(GetParam().from)).empty());
  EXPECT_EQ(changed(before, bench.sw.counters()),
            (Counts{{"packets_received", 1}, {"bytes_received", frame.size()}, {GetParam().counter, 1}}));
  EXPECT_EQ(job.reduce({floats(0, {1}), floats(1, {2})}).as<float>(), Floats{3}) << "the slot is as it was";
}

INSTANTIATE_TEST_SUITE_P(
    ExactSwitch, ExactDrops,
    ::testing::Values(ExactDrop{"dropped_short", nullptr, 32, [](Frame* f) { f->resize(23); }},
                      ExactDrop{"dropped_version", nullptr, 32, [](Frame* f) { (*f)[0] = 0x25; }},
                      ExactDrop{"dropped_operation", [](Header* h) { h->type = kElementTypes; }},
                      ExactDrop{"dropped_operation", [](Header* h) { h->operation = 5; }},
                      ExactDrop{"dropped_operation", [](Header* h) { h->divisor = 0; }},
                      ExactDrop{"dropped_operation", [](Header* h) { h->divisor = 129; }},
                      ExactDrop{"dropped_seq", [](Header* h) { h->seq = 0; }}, ExactDrop{"dropped_length", nullptr, 31},
                      ExactDrop{"dropped_length", nullptr, 24 + 260},
                      ExactDrop{"dropped_session", [](Header* h) { h->job = 200; }},
                      ExactDrop{"dropped_session", [](Header* h) { ++h->epoch; }},
                      ExactDrop{"dropped_worker", [](Header* h) { h->worker = 2; }},
                      ExactDrop{"dropped_slot", [](Header* h) { h->slot = 8; }},
                      ExactDrop{"dropped_source", nullptr, 32, [](Frame*) {}, 1},
                      ExactDrop{"dropped_source", nullptr, 32, [](Frame*) {}, 500},
                      ExactDrop{"dropped_source", nullptr, 32, [](Frame* f) { f->back() ^= 1; }, 500},
                      ExactDrop{"dropped_checksum", nullptr, 32, [](Frame* f) { f->back() ^= 1; }},
                      ExactDrop{"dropped_checksum", nullptr, 32, [](Frame* f) { (*f)[16] ^= 0x80; }},
                      ExactDrop{"dropped_checksum", nullptr, 32, [](Frame* f) { (*f)[23] ^= 1; }},
                      ExactDrop{"dropped_checksum", nullptr, 32, [](Frame* f) { f->resize(28); }}));

TEST(ExactSwitch, ADamagedPacketIsNoSignOfLife) {
  Bench bench(SwitchOptions{});
  ExactJob job(bench, 2);
  bench.now += SwitchOptions{}.lease - seconds(1);
  auto frame = job.frame(floats(0, {1}));
  frame.back() ^= 1;
  job.put(frame, 0);
  bench.now += seconds(2);
  bench.sw.sweep(bench.now);
  EXPECT_EQ(bench.sw.sessions(), 0);
}

// ---- what comes of it ----

TEST(ExactSwitch, TheLastContributionMulticastsTheResult) {
  Bench bench;
  ExactJob job(bench, 3);
  EXPECT_TRUE(job.put(floats(2, {0x1p24F, 1}, 1, 7)).empty());
  EXPECT_TRUE(job.put(floats(0, {1, 2}, 1, 7)).empty());
  const auto before = nonzero(bench.sw.counters());
  const auto sent = job.put(floats(1, {1, 4}, 1, 7));
  const ExactResult result = job.result(sent);
  EXPECT_TRUE(sent[0].multicast);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{job.job.at(0), job.job.at(1), job.job.at(2)}));
  EXPECT_EQ(result.as<float>(), (Floats{0x1p24F + 2, 7}));
  EXPECT_EQ(result.header.job, job.job.granted.job);
  EXPECT_EQ(result.header.epoch, job.job.granted.epoch);
  EXPECT_EQ(result.header.slot, 7);
  EXPECT_EQ(result.header.seq, 1U);
  const size_t size = wire::kExactHeaderBytes + 8;
  EXPECT_EQ(changed(before, bench.sw.counters()), (Counts{{"packets_received", 1},
                                                          {"bytes_received", size},
                                                          {"packets_sent", 3},
                                                          {"bytes_sent", 3 * size},
                                                          {"contributions_added", 1},
                                                          {"uses_completed", 1},
                                                          {"elements_added", 2}}));
}

TEST(ExactSwitch, AloneAWorkerGetsAResult) {
  Bench bench;
  ExactJob job(bench, 1);
  ExactPart part = floats(0, {10, 20});
  part.divisor = 4;
  EXPECT_EQ(job.reduce({part}).as<float>(), (Floats{2.5F, 5}));
}

TEST(ExactSwitch, AHundredAndTwentyEightWorkersInAnyOrder) {
  Bench bench;
  ExactJob job(bench, 128);
  std::vector<int> order(128);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()));
  std::shuffle(order.begin(), order.end(), random);
  std::vector<ExactPart> parts;
  parts.reserve(order.size());
  for (const int worker : order)
    parts.push_back(floats(worker, {static_cast<float>(worker), worker == 77 ? 1.0F : 0x1p-30F}));
  EXPECT_EQ(job.reduce(parts).as<float>(), (Floats{127 * 64, 1 + 0x1p-23F})) << "127 times 2^-30 is nearly 2^-23";
}

TEST(ExactSwitch, DuplicatesAreDroppedUntilCompleteThenAnswered) {
  Bench bench;
  ExactJob job(bench, 2);
  job.put(floats(0, {1, 2, 3}));
  auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(job.put(floats(0, {100, 2, 3})).empty());
  EXPECT_EQ(changed(before, bench.sw.counters()),
            (Counts{{"packets_received", 1}, {"bytes_received", 36}, {"duplicates_dropped", 1}}));
  const auto result = job.put(floats(1, {10, 20, 30}));
  EXPECT_EQ(job.result(result).as<float>(), (Floats{11, 22, 33})) << "what a duplicate has does not count";
  for (int worker = 0; worker < 2; ++worker) {
    ExactPart again = floats(worker, {9, 9, 9});
    again.flags = wire::kFlagRepeat;
    const auto sent = job.put(again);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_FALSE(sent[0].multicast);
    EXPECT_EQ(sent[0].to, std::vector<Endpoint>{job.job.at(worker)});
    EXPECT_EQ(sent[0].frame, result[0].frame) << "the very same bytes";
  }
  EXPECT_EQ(bench.sw.counters().duplicates_answered.get(), 2U);
  for (size_t count = 0; count < 5; ++count) {
    const auto again = job.put(floats(1, Floats(count, 7)));
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].frame, result[0].frame) << "in full, however long the duplicate is";
  }
}

TEST(ExactSwitch, EachMemberGetsWhatItWants) {
  Bench bench;
  ExactJob job(bench, 3);
  ExactPart root = floats(1, {1, 2, 3});
  root.flags = wire::kFlagNoElements;
  job.put(root);
  job.put(floats(0, {}));
  const auto sent = job.put(floats(2, {}));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{job.job.at(0), job.job.at(2)}));
  EXPECT_EQ(sent[1].to, (std::vector<Endpoint>{job.job.at(1)}));
  EXPECT_EQ(job.result({sent[0]}).as<float>(), (Floats{1, 2, 3}));
  EXPECT_TRUE(job.result({sent[1]}).elements.empty());
  root.flags |= wire::kFlagRepeat;
  EXPECT_TRUE(job.result(job.put(root)).elements.empty());
  EXPECT_EQ(job.result(job.put(floats(2, {}))).as<float>(), (Floats{1, 2, 3}));
}

TEST(ExactSwitch, ASumOfNarrowTermsMayBeLongerThanAPacket) {  // [NSUM-4]
  Bench bench;
  ExactJob job(bench, 2);
  ExactPart terms;
  terms.type = ElementType::kFloat8E5M2;
  terms.operation = ReduceOp::kSumToFloat32;
  terms.elements.assign(1024, 0x3c);  // the whole payload
  terms.flags = wire::kFlagNoElements;
  job.put(terms);
  terms.worker = 1;
  terms.flags = 0;
  const auto sent = job.put(terms);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(job.result({sent[0]}).as<float>(), Floats(1024, 2));
  EXPECT_TRUE(job.result({sent[1]}).elements.empty());
  terms.flags = wire::kFlagRepeat;
  EXPECT_EQ(job.result(job.put(terms)).as<float>(), Floats(1024, 2));
}

TEST(ExactSwitch, TheUseBeforeIsStillAnsweredAndOlderOnesAreStale) {
  Bench bench;
  ExactJob job(bench, 2);
  job.reduce({floats(0, {1}), floats(1, {2})});
  job.put(floats(0, {3}, 2));
  const auto second = job.put(floats(1, {4}, 2));
  job.put(floats(0, {5}, 3));  // incomplete, and in the room where the contributions of use 2 were
  const auto again = job.put(floats(1, {4}, 2));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].frame, second[0].frame);
  const auto before = nonzero(bench.sw.counters());
  EXPECT_TRUE(job.put(floats(1, {2}, 1)).empty());
  EXPECT_EQ(changed(before, bench.sw.counters()).at("dropped_stale"), 1U);
  EXPECT_EQ(job.result(job.put(floats(1, {6}, 3))).as<float>(), Floats{11});
}

// Six uses of two slots, numbers that wrap between them, from who is last to who is first.
TEST(ExactSwitch, BothVersionsShareWhatIsKept) {
  Bench bench;
  ExactJob job(bench, 3);
  uint32_t seq = 0xfffffffc;
  std::vector<std::vector<Sent>> results;
  for (int use = 0; use < 6; ++use, seq = wire::next_seq(seq)) {
    for (uint16_t slot = 0; slot < 2; ++slot) {
      const auto value = static_cast<float>(100 * use + 10 * slot);
      std::vector<ExactPart> parts;
      for (int i = 0; i < 3; ++i) {
        const int worker = (i + use) % 3;
        // One of the three has nothing, so what it had in the use before still lies there.
        parts.push_back(
            floats(worker, worker == use % 2 ? Floats{} : Floats{value, static_cast<float>(worker)}, seq, slot));
      }
      const ExactResult result = job.reduce(parts);
      EXPECT_EQ(result.as<float>(), (Floats{2 * value, static_cast<float>(use % 2 == 0 ? 3 : 2)})) << "use " << use;
      EXPECT_EQ(result.header.seq, seq);
      EXPECT_FALSE(result.disagree());
    }
  }
  EXPECT_EQ(bench.sw.counters().uses_completed.get(), 12U);
  EXPECT_EQ(bench.sw.counters().dropped_stale.get(), 0U);
}

TEST(ExactSwitch, ANewerUseTakesAnIncompleteOneOver) {
  Bench bench;
  ExactJob job(bench, 2);
  ExactPart other = floats(0, {1000, 7}, 1);
  other.call = 1;
  job.put(other);
  EXPECT_EQ(job.reduce({floats(1, {1}, 3), floats(0, {2}, 3)}).as<float>(), Floats{3});
}

// Payloads are tried with uses that may never be complete (docs/protocol.md, Checking the path), and a packet of one
// may be late.
TEST(ExactSwitch, WhatWasGivenUpDoesNotComeIntoTheSumOfTheNextUse) {
  Bench bench;
  ExactJob job(bench, 3);
  constexpr uint32_t kTrial = 0xfffffffe;
  job.put(floats(0, {0, 0}, kTrial));
  job.put(floats(1, {10}));
  job.put(floats(2, {20}));
  EXPECT_TRUE(job.put(floats(1, {0, 0}, kTrial)).empty());
  EXPECT_TRUE(job.put(floats(2, {0, 0}, kTrial)).empty());
  EXPECT_EQ(bench.sw.counters().dropped_stale.get(), 2U);
  EXPECT_EQ(job.result(job.put(floats(0, {30}))).as<float>(), Floats{60});
  // Where the version holds nothing, too.
  job.put(floats(1, {10}, 1, 1));
  EXPECT_TRUE(job.put(floats(1, {0, 0}, kTrial, 1)).empty());
  job.put(floats(2, {20}, 1, 1));
  EXPECT_EQ(job.result(job.put(floats(0, {30}, 1, 1))).as<float>(), Floats{60});
}

TEST(ExactSwitch, DisagreementIsToldToAllAndEndsWithTheUse) {
  Bench bench;
  ExactJob job(bench, 2);
  ExactPart other = floats(1, {3, 4});
  other.type = ElementType::kInt32;
  const ExactResult result = job.reduce({floats(0, {1, 2}), other});
  EXPECT_EQ(result.header.flags, wire::kFlagDisagree);
  EXPECT_EQ(result.header.type, static_cast<uint8_t>(ElementType::kFloat32));
  EXPECT_TRUE(result.elements.empty());
  const auto again = job.put(other);
  EXPECT_TRUE(job.result(again).disagree()) << "a duplicate is told the same";
  EXPECT_EQ(job.reduce({floats(0, {1, 2}, 2), floats(1, {1, 2}, 2)}).as<float>(), (Floats{2, 4}));
}

TEST(ExactSwitch, ABarrierHasAResultWithoutElements) {
  Bench bench;
  ExactJob job(bench, 2);
  std::vector<ExactPart> parts{floats(0, {}), floats(1, {})};
  for (ExactPart& part : parts) part.operation = ReduceOp::kBarrier;
  const ExactResult result = job.reduce(parts);
  EXPECT_EQ(result.header.operation, static_cast<uint8_t>(ReduceOp::kBarrier));
  EXPECT_TRUE(result.elements.empty());
}

TEST(ExactSwitch, ShardsHaveTheirOwnSlotsAndAudience) {
  Bench bench;
  ExactJob job(bench, 2, 8, 1024, 2);
  job.put(floats(0, {1}, 1, 4), 1);
  const auto sent = job.put(floats(1, {2}, 1, 4), 1);
  EXPECT_EQ(job.result(sent).as<float>(), Floats{3});
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{job.job.at(0, 1), job.job.at(1, 1)}));
  EXPECT_TRUE(job.put(floats(0, {1}, 1, 4), 0).empty());
  EXPECT_EQ(bench.sw.counters().dropped_slot.get(), 1U);
}

TEST(ExactSwitch, AProbeSaysWhoHasContributed) {
  Bench bench;
  ExactJob job(bench, 3);
  job.put(floats(2, {1}, 1, 5));
  const wire::Reply reply = bench.probe(job.job.member(0), 5, 1, job.job.at(0));
  EXPECT_EQ(reply.status, wire::ReplyStatus::kOk);
  EXPECT_EQ(reply.probe.contributed_low, 4U);
}

// ---- targets ----

/// Two workers that come by RDMA.
struct SwitchTargets : public ::testing::Test {
  static SwitchOptions with_card() {
    SwitchOptions options;
    options.has_card = true;
    return options;
  }
  static ExactPart part(int worker, std::optional<wire::Target> target, uint32_t seq = 1) {
    ExactPart its = floats(worker, {1, 2}, seq);
    its.target = target;
    return its;
  }

  /// Puts contributions of both workers; what comes of the second.
  std::vector<Sent> put_both(std::optional<wire::Target> first, const ExactPart& second) {
    EXPECT_TRUE(exact.put(part(0, first, second.seq)).empty());
    return exact.put(second);
  }
  Floats floats_of(const Sent& sent) { return exact.result({sent}).as<float>(); }

  static constexpr wire::Target kFirst{0x1000, 11, 8}, kSecond{0x2000, 22, 8};
  Bench bench{with_card()};
  ExactJob exact{bench, ask_exact(ask_for(2), wire::kOpenRdma)};
};

TEST_F(SwitchTargets, ResultsAreWrittenThere) {  // [RDMA-7]
  const uint64_t before = bench.sw.counters().bytes_sent.get();
  const auto sent = put_both(kFirst, part(1, kSecond));
  ASSERT_EQ(sent.size(), 2U);
  for (size_t worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(sent[worker].to, std::vector<Endpoint>{exact.job.at(static_cast<int>(worker))});
    EXPECT_EQ(sent[worker].target.address, (worker + 1) * 0x1000);
    EXPECT_EQ(sent[worker].target.key, 11 * (worker + 1));
    EXPECT_EQ(sent[worker].written, bytes_of(Floats{2, 4}));
    const ExactResult result = exact.result({sent[worker]});
    EXPECT_EQ(result.header.flags, wire::kFlagTarget);
    EXPECT_TRUE(result.elements.empty());
  }
  EXPECT_EQ(bench.sw.counters().bytes_sent.get() - before, 2 * (8 + wire::kExactHeaderBytes));
}

TEST_F(SwitchTargets, AreEachWorkersOwnAffair) {  // [RDMA-7]
  const auto sent = put_both(kFirst, part(1, std::nullopt));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].target.address, 0x1000U);
  EXPECT_EQ(sent[1].to, std::vector<Endpoint>{exact.job.at(1)});
  EXPECT_EQ(floats_of(sent[1]), (Floats{2, 4}));
}

TEST_F(SwitchTargets, OfAnotherSizeAreNotWritten) {  // [RDMA-7]
  for (const uint32_t bytes : {0, 7, 9, 4096}) {
    ExactPart none = part(1, kSecond, 1 + bytes * 2);
    none.flags = wire::kFlagNoElements;
    const auto sent = put_both(wire::Target{0x1000, 11, bytes}, none);
    ASSERT_EQ(sent.size(), 2U);
    for (const Sent& one : sent) EXPECT_EQ(one.target.bytes, 0U) << "who wants nothing has nothing written";
    EXPECT_EQ(floats_of(sent[0]), (Floats{2, 4}));
    EXPECT_TRUE(floats_of(sent[1]).empty());
  }
}

// Not even where a target is as long as the packed result.
TEST_F(SwitchTargets, TakeNoPackedResult) {  // [ZERO-6]
  ExactPart zeros = part(0, std::nullopt);
  zeros.flags = wire::kFlagPacked;
  zeros.elements.resize(wire::trailer_bytes({60, 44}));
  wire::write_trailer({60, 44}, {}, zeros.elements.data());
  for (const uint32_t bytes : {5, 240}) {
    zeros.seq = bytes;
    zeros.target = wire::Target{0x1000, 11, bytes};
    zeros.worker = 0;
    EXPECT_TRUE(exact.put(zeros).empty());
    zeros.worker = 1;
    const auto sent = exact.put(zeros);
    EXPECT_EQ(exact.result(sent).header.flags, wire::kFlagPacked);
    EXPECT_EQ(exact.result(sent).elements, zeros.elements);
    for (const Sent& one : sent) EXPECT_EQ(one.target.bytes, 0U);
  }
}

TEST_F(SwitchTargets, ThoseWhoDisagreeGetNothingWritten) {
  ExactPart other = part(1, kSecond);
  other.call = 1;
  for (const Sent& one : put_both(kFirst, other)) {
    EXPECT_EQ(one.target.bytes, 0U);
    EXPECT_TRUE(exact.result({one}).disagree());
  }
}

TEST_F(SwitchTargets, ARepeatedContributionIsAnsweredByAFrame) {  // [RDMA-7]
  const ExactPart first = part(0, kFirst);
  exact.put(first);
  exact.put(first);
  EXPECT_EQ(bench.sw.counters().duplicates_dropped.get(), 1U);
  exact.put(part(1, std::nullopt));
  const auto sent = exact.put(first);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].target.bytes, 0U);
  EXPECT_EQ(floats_of(sent[0]), (Floats{2, 4}));
  EXPECT_EQ(exact.result(sent).header.flags, 0);
}

TEST_F(SwitchTargets, AreOfTheirUseAlone) {
  put_both(kFirst, part(1, kSecond));
  const auto sent = put_both(std::nullopt, part(1, std::nullopt, 2));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].multicast);
}

TEST(SwitchExact, ATargetThatComesByPacketsIsDropped) {  // [RDMA-6]
  Bench bench;
  ExactJob exact(bench, 2);
  ExactPart part = floats(0, {1, 2});
  part.target = wire::Target{0x1000, 11, 8};
  EXPECT_TRUE(exact.put(part).empty());
  EXPECT_EQ(bench.sw.counters().dropped_length.get(), 1U);
}

TEST_F(SwitchTargets, ElementsAreTheCardsToCheck) {  // [RDMA-5]
  auto frame = exact.frame(part(0, kFirst));
  frame[wire::kExactHeaderBytes] ^= 1;
  EXPECT_TRUE(exact.put(frame, 0).empty());
  EXPECT_EQ(bench.sw.counters().dropped_checksum.get(), 1U) << "the target is covered";
  frame[wire::kExactHeaderBytes] ^= 1;
  frame.back() ^= 1;
  exact.put(frame, 0);
  EXPECT_EQ(bench.sw.counters().dropped_checksum.get(), 1U);
  EXPECT_EQ(bench.sw.counters().contributions_added.get(), 1U);
}

}  // namespace
}  // namespace switchml::softswitch
