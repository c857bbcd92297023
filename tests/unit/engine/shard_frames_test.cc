// What a shard does with what it receives: each reason to drop a frame, the witness, and the repair of gaps.
#include "base/limits.h"
#include "engine/shard.h"
#include "lone_shard.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

/// A shard that has sent an announcement (slot 0) and `chunks` chunks of int32 (from slot 2 on).
class Sent {
 public:
  explicit Sent(size_t chunks = 1, ReduceOp op = ReduceOp::kSum) : tensor(chunks * 256) {
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<int32_t>(i);
    input = tensor;
    outcome = lone.submit(in_place(op, ElementType::kInt32, tensor));
    frames = lone.step();
    EXPECT_EQ(frames.size(), 1 + chunks);
  }
  /// The result of a frame with one header field changed.
  template <typename F>
  Bytes altered(size_t frame, F&& change) const {
    Bytes bytes = result_of(frames[frame]);
    wire::Header header = header_of(bytes);
    change(header);
    wire::write_header(header, bytes.data());
    return bytes;
  }
  /// What was rightly dropped has left no trace: the collective still completes with the right result.
  void expect_unharmed() {
    EXPECT_TRUE(outcome->empty());
    lone.answer_all(frames);
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_TRUE(outcome->front().ok()) << outcome->front().to_string();
    EXPECT_EQ(tensor, input);
  }

  LoneShard lone;
  std::vector<int32_t> tensor, input;
  std::shared_ptr<std::vector<Status>> outcome;
  std::vector<Bytes> frames;
};

TEST(ShardRx, MalformedFramesAreCountedAndDropped) {  // [PKT-7]
  Sent sent;
  const Bytes good = result_of(sent.frames[1]);
  Bytes odd = good;
  odd.pop_back();
  Bytes longer = good;  // a well-formed frame, but of more words than the session's payload
  longer.resize(wire::kHeaderBytes + 1024 + 4);
  const std::vector<Bytes> bad = {
      {},
      {0x52},
      Bytes(good.begin(), good.begin() + wire::kHeaderBytes - 1),
      odd,
      longer,
      sent.frames[1],  // a contribution
      sent.altered(1, [](wire::Header& header) { header.version = wire::kVersion + 1; }),
      sent.altered(1, [](wire::Header& header) { header.kind = 15; }),
      sent.altered(1, [](wire::Header& header) { header.flags = 3; }),  // no such operation
      sent.altered(1, [](wire::Header& header) { header.seq = 0; }),
      sent.altered(1, [](wire::Header& header) { header.worker = 0; }),  // a result is for all
      reply(wire::Request::kProbe, wire::ReplyStatus::kOk, 1, Bytes(3)),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    sent.lone.deliver({bad[i]});
    EXPECT_EQ(sent.lone.counters().results_malformed.get(), i + 1) << "case " << i;
  }
  EXPECT_EQ(sent.lone.counters().packets_received.get(), bad.size());
  EXPECT_EQ(sent.lone.counters().witness_failures.get(), 0U);
  sent.expect_unharmed();
}

TEST(ShardRx, FramesOfAnotherSessionOrSlotAreForeign) {  // [SLOT-14]
  Sent sent;
  const std::vector<Bytes> foreign = {
      sent.altered(1, [](wire::Header& header) { ++header.job; }),
      sent.altered(1, [](wire::Header& header) { ++header.epoch; }),
      sent.altered(1, [](wire::Header& header) { header.slot = 8; }),  // the first that is not this shard's
      sent.altered(1, [](wire::Header& header) { header.slot = 0xffff; }),
  };
  for (size_t i = 0; i < foreign.size(); ++i) {
    sent.lone.deliver({foreign[i]});
    EXPECT_EQ(sent.lone.counters().results_foreign.get(), i + 1) << "case " << i;
  }
  sent.expect_unharmed();
}

TEST(ShardRx, OtherSequenceNumbersAreStale) {  // [SLOT-14]
  Sent sent;
  const std::vector<Bytes> stale = {
      sent.altered(1, [](wire::Header& header) { ++header.seq; }),
      sent.altered(1, [](wire::Header& header) { header.seq = 0xffffffff; }),
      sent.altered(1, [](wire::Header& header) { header.slot = 3; }),  // a slot that was never used
      sent.altered(0, [](wire::Header& header) { header.slot = 1; }),
  };
  for (size_t i = 0; i < stale.size(); ++i) {
    sent.lone.deliver({stale[i]});
    EXPECT_EQ(sent.lone.counters().results_stale.get(), i + 1) << "case " << i;
  }
  sent.expect_unharmed();
}

TEST(ShardRx, ARepeatedResultIsNotWrittenTwice) {
  Sent sent(2);
  sent.lone.deliver({result_of(sent.frames[1])});
  EXPECT_EQ(sent.lone.counters().chunks_completed.get(), 1U);
  EXPECT_EQ(sent.lone.counters().elements_summed_by_switch.get(), 256U);
  sent.tensor[0] = 12345;
  sent.lone.deliver({result_of(sent.frames[1]), result_of(sent.frames[1])});
  EXPECT_EQ(sent.lone.counters().results_duplicate.get(), 2U);
  EXPECT_EQ(sent.lone.counters().chunks_completed.get(), 1U);
  EXPECT_EQ(sent.tensor[0], 12345);
  EXPECT_TRUE(sent.outcome->empty());
}

TEST(ShardRx, ResultsInAnyOrderGoToTheirPlaces) {
  Sent sent(5);
  sent.tensor.assign(sent.tensor.size(), 0);
  std::vector<Bytes> results;
  for (const size_t i : {4U, 1U, 0U, 5U, 3U, 2U}) results.push_back(result_of(sent.frames[i]));
  sent.lone.deliver(results);
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_TRUE(sent.outcome->front().ok());
  EXPECT_EQ(sent.tensor, sent.input);
}

// ---- the witness ----

TEST(ShardRx, ADamagedResultIsAskedForAgain) {  // [WIT-7]
  Sent sent;
  Bytes damaged = result_of(sent.frames[1]);
  damaged.back() ^= 1;
  const auto again = sent.lone.deliver({damaged});
  EXPECT_EQ(sent.lone.counters().witness_failures.get(), 1U);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_NE(header_of(again[0]).flags & wire::kFlagRepeat, 0);
  EXPECT_EQ(without_repeat_flag(again[0]), sent.frames[1]) << "the very bytes that were sent before";
  EXPECT_EQ(sent.lone.counters().retransmissions.get(), 1U);
  sent.expect_unharmed();
}

TEST(ShardRx, AWholeCopyRightBehindADamagedOneIsTaken) {
  Sent sent;
  const Bytes whole = result_of(sent.frames[1]);
  Bytes damaged = whole;
  damaged.back() ^= 1;
  const auto again = sent.lone.deliver({damaged, whole});
  EXPECT_EQ(sent.lone.counters().witness_failures.get(), 1U);
  EXPECT_EQ(sent.lone.counters().chunks_completed.get(), 1U);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(without_repeat_flag(again[0]), sent.frames[1]) << "its slot has not been used again meanwhile";
}

TEST(ShardRx, WordsWitnessLengthAndOperationAreAllChecked) {  // [WIT-6]
  Sent sent;
  Bytes shorter = result_of(sent.frames[1]);
  shorter.resize(shorter.size() - 4);
  const std::vector<Bytes> wrong = {
      sent.altered(1, [](wire::Header& header) { ++header.witness; }),
      shorter,
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(sent.lone.deliver({wrong[i]}).size(), 1U) << "case " << i;
    EXPECT_EQ(sent.lone.counters().witness_failures.get(), i + 1) << "case " << i;
  }
  sent.expect_unharmed();

  Sent other;
  const Bytes maximum = other.altered(1, [](wire::Header& header) { header.flags ^= 1; });
  EXPECT_EQ(other.lone.deliver({maximum}).size(), 1U);
  EXPECT_EQ(other.lone.counters().witness_failures.get(), 1U);
  other.expect_unharmed();
}

TEST(ShardRx, AMaximumBelowOnesOwnValueIsRefused) {  // [MAX-1]
  Sent sent(1, ReduceOp::kMax);
  Bytes lower = result_of(sent.frames[1]);
  lower.back() ^= 1;  // the last element is 255: odd
  EXPECT_EQ(sent.lone.deliver({lower}).size(), 1U);
  EXPECT_EQ(sent.lone.counters().witness_failures.get(), 1U);
  sent.expect_unharmed();
}

TEST(ShardRx, ADamagedExponentIsAskedForAgain) {  // [CALL-7, MAX-3]
  LoneShard lone;
  std::vector<float> tensor(600, 1.0F);
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  const auto call = lone.step();
  ASSERT_EQ(call.size(), 1U);
  for (size_t word = 0; word < 2; ++word) {  // a higher exponent, as another rank could have one, and a lower one
    Bytes damaged = result_of(call[0]);
    damaged[wire::kHeaderBytes + 4 * word] ^= word == 0 ? 0x40 : 0x20;
    const auto again = lone.deliver({damaged});
    ASSERT_EQ(again.size(), 1U) << word;
    EXPECT_EQ(without_repeat_flag(again[0]), call[0]);
  }
  EXPECT_EQ(lone.counters().witness_failures.get(), 2U);
  lone.answer_all(call);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
  EXPECT_EQ(tensor, std::vector<float>(600, 1.0F));
}

TEST(ShardRx, TheThirdWrongResultEndsTheSession) {  // [WIT-7]
  Sent sent;
  const auto second = sent.lone.submit(barrier());
  sent.lone.step();
  const Bytes wrong = sent.altered(1, [](wire::Header& header) { ++header.witness; });
  EXPECT_EQ(sent.lone.deliver({wrong}).size(), 1U);
  EXPECT_EQ(sent.lone.deliver({wrong}).size(), 1U);
  EXPECT_TRUE(sent.outcome->empty());
  EXPECT_TRUE(sent.lone.deliver({wrong, result_of(sent.frames[1])}).empty());
  ASSERT_EQ(sent.outcome->size(), 1U);
  const Status& status = sent.outcome->front();
  EXPECT_EQ(status.code(), Code::kMismatch);
  for (const char* part : {"all_reduce(SUM, int32, 256 elements)", "slot 2", "sequence 1", "1 contributions"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  ASSERT_EQ(second->size(), 1U) << "a session that fails fails for all";
  EXPECT_EQ(second->front().message(), status.message());
  ASSERT_EQ(sent.lone.failures.size(), 1U);
  EXPECT_EQ(sent.lone.failures[0].message(), status.message());
  EXPECT_TRUE(sent.lone.transport->lent.empty()) << "frames are given back on this way out too";
  EXPECT_EQ(sent.lone.counters().chunks_completed.get(), 0U) << "what came behind is not looked at";
  const auto later = sent.lone.submit(barrier());
  sent.lone.step();
  ASSERT_EQ(later->size(), 1U);
  EXPECT_EQ(later->front().message(), status.message());
  EXPECT_EQ(sent.lone.failures.size(), 1U) << "told once";
}

// ---- gaps ----

TEST(ShardRx, ThreeLaterResultsRepairAGapWithoutATimer) {
  Sent sent(6);
  EXPECT_TRUE(sent.lone.deliver({result_of(sent.frames[2]), result_of(sent.frames[3])}).empty())
      << "two may have overtaken it";
  const auto repair = sent.lone.deliver({result_of(sent.frames[4])});
  ASSERT_EQ(repair.size(), 1U);
  EXPECT_EQ(without_repeat_flag(repair[0]), sent.frames[1]);
  EXPECT_EQ(sent.lone.counters().timeouts.get(), 0U);
  EXPECT_TRUE(sent.lone.deliver({result_of(sent.frames[5])}).empty()) << "once, not with every further result";
  sent.lone.answer_all({sent.frames[1], sent.frames[6], sent.frames[0]});
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_TRUE(sent.outcome->front().ok());
  EXPECT_EQ(sent.tensor, sent.input);
}

// ---- replies ----

TEST(ShardRx, ARefusedLeaseEndsTheSession) {
  LoneOptions options;
  options.lease = milliseconds(400);
  LoneShard lone(options);
  uint32_t asked = 0;
  for (const Bytes& frame : lone.pass(milliseconds(110))) {
    if (wire::kind_of(frame.data()) == static_cast<uint8_t>(wire::Kind::kRequest)) {
      asked = wire::read_control(frame.data()).request_id;
    }
  }
  ASSERT_NE(asked, 0U);
  Bytes accepted(wire::kJoinReplyBytes);
  lone.deliver({reply(wire::Request::kJoin, wire::ReplyStatus::kOk, asked, accepted)});
  EXPECT_TRUE(lone.failures.empty());
  EXPECT_EQ(lone.counters().results_malformed.get(), 0U);
  lone.deliver({reply(wire::Request::kJoin, wire::ReplyStatus::kUnknownSession, asked + 1, {})});
  EXPECT_TRUE(lone.failures.empty()) << "an answer to what was not asked";
  lone.deliver({reply(wire::Request::kJoin, wire::ReplyStatus::kUnknownSession, asked, {})});
  ASSERT_EQ(lone.failures.size(), 1U);
  EXPECT_EQ(lone.failures[0].code(), Code::kUnavailable);
  for (const char* part : {"test-switch", wire::to_string(wire::ReplyStatus::kUnknownSession), "restarted"}) {
    EXPECT_NE(lone.failures[0].message().find(part), std::string::npos) << lone.failures[0].message();
  }
}

// ---- with a switch and a network ----

struct Disagreement {
  ReduceOp op;
  ElementType type;
  size_t count;
  uint64_t tag;
};

class ShardRxDisagreement : public ::testing::TestWithParam<Disagreement> {};

TEST_P(ShardRxDisagreement, EveryRankGetsAMismatchAndNoneASum) {
  Cluster cluster({3, 1, 8, 1024, {}});
  std::vector<float> a(1000, 1.0F), b(1000, 1.0F), c(4000, 1.0F);
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  outcomes.push_back(cluster.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, a)));
  outcomes.push_back(cluster.submit(1, in_place(ReduceOp::kSum, ElementType::kFloat32, b)));
  Collective other = in_place(GetParam().op, GetParam().type, c);
  other.count = other.operands()->output.end = GetParam().count;
  other.tag = GetParam().tag;
  outcomes.push_back(cluster.submit(2, other));
  ASSERT_TRUE(cluster.run(seconds(10)));
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome->front().code(), Code::kMismatch) << outcome->front().to_string();
    EXPECT_NE(outcome->front().message().find("elements"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShardRxDisagreement,
                         ::testing::Values(Disagreement{ReduceOp::kSum, ElementType::kFloat32, 999, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 4000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 0, 0},
                                           Disagreement{ReduceOp::kMax, ElementType::kFloat32, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kInt32, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat16, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 1000, 3}));

TEST(ShardRx, DamagedFramesNeverGiveAWrongSum) {
  int right = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster({3, 1, 8, 1024, {seed, 0.01, 0.01, 0.01, 3}});
    const Tensors<float> inputs = random_floats(3, 4000, static_cast<uint32_t>(seed));
    Tensors<float> tensors = inputs;
    std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
    for (size_t w = 0; w < 3; ++w) {
      Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[w]);
      c.deadline = cluster.now() + seconds(5);
      outcomes.push_back(cluster.submit(static_cast<int>(w), c));
    }
    ASSERT_TRUE(cluster.run(seconds(10)));
    for (size_t w = 0; w < 3; ++w) {
      if (!outcomes[w]->front().ok()) continue;
      ++right;
      expect_sums(inputs, tensors[w], 256);
    }
  }
  EXPECT_GT(right, 0);
}

TEST(ShardRx, ForeignStaleAndMalformedFramesAreCountedAndIgnored) {
  Cluster cluster({2, 1, 8, 1024, {}});
  Tensors<float> inputs = random_floats(2, 5000, 2), tensors = inputs;
  for (size_t w = 0; w < 2; ++w)
    cluster.submit(static_cast<int>(w), in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[w]));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    wire::Header header;
    header.version = wire::kVersion;
    header.kind = static_cast<uint8_t>(wire::Kind::kResult);
    header.job = cluster.session().job;
    header.worker = kAllWorkers;
    header.epoch = cluster.session().epoch + (i % 2 == 0 ? 1 : 0);
    header.slot = static_cast<uint16_t>(random() % 16);
    header.seq = 1 + random() % 100;
    std::vector<uint8_t> frame(wire::kHeaderBytes + 4 * (random() % 257) + (i % 5 == 0 ? 1 : 0), 0x55);
    wire::write_header(header, frame.data());
    if (i % 7 == 0) frame.resize(random() % 20);
    cluster.inject(0, frame);
    cluster.round();
  }
  ASSERT_TRUE(cluster.run());
  expect_sums(inputs, tensors[0], 256);
  const WorkerCounters& counters = cluster.shard(0).counters();
  EXPECT_GT(counters.results_foreign.get(), 0U);
  EXPECT_GT(counters.results_stale.get(), 0U);
  EXPECT_GT(counters.results_malformed.get(), 0U);
}

}  // namespace
}  // namespace switchml::testing
