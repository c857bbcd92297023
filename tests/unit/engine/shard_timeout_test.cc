// What happens when nothing happens: repetition, deadlines, and a switch that is silent. retransmitter_test.cc and
// switch_liveness_test.cc have the rules in detail.
#include "engine/shard.h"
#include "lone_shard.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

LoneOptions one_of(int workers) {
  LoneOptions options;
  options.workers = workers;
  return options;
}

/// The times, after now, at which frames that `counts` leave within `time`.
template <typename F>
std::vector<Duration> departures(LoneShard& lone, Duration time, F&& counts) {
  std::vector<Duration> times;
  const Time begin = lone.now;
  while (lone.now < begin + time) {
    for (const Bytes& frame : lone.pass(microseconds(500))) {
      if (counts(frame)) times.push_back(lone.now - begin);
    }
  }
  return times;
}

wire::Control control_of(const Bytes& frame) { return wire::read_control(frame.data()); }
bool is_request(const Bytes& frame, wire::Request type) {
  return wire::kind_of(frame.data()) == static_cast<uint8_t>(wire::Kind::kRequest) &&
         control_of(frame).type == static_cast<uint8_t>(type);
}
bool is_probe(const Bytes& frame) { return is_request(frame, wire::Request::kProbe); }

Bytes probe_reply(const Bytes& probe, uint64_t joined, uint64_t contributed) {
  wire::ProbeReply body;
  body.joined_low = joined;
  body.contributed_low = contributed;
  Bytes bytes(wire::kProbeReplyBytes);
  wire::write_probe_reply(body, bytes.data());
  return reply(wire::Request::kProbe, wire::ReplyStatus::kOk, control_of(probe).request_id, bytes);
}
/// The next probe; nothing is received meanwhile.
Bytes next_probe(LoneShard& lone) {
  for (int i = 0; i < 10000; ++i) {
    for (Bytes& frame : lone.pass(microseconds(500))) {
      if (is_probe(frame)) return std::move(frame);
    }
  }
  ADD_FAILURE() << "no probe in 5 s";
  return Bytes(wire::kControlBytes);
}

// A switch that the transport does not know is asked by packets, and knows no member there. A plain join would be
// refused, and the session lost.
TEST(ShardTimeout, WhoDoesNotKnowTheSwitchMeetsIt) {  // [RDMA-3]
  LoneOptions options = one_of(2);
  options.carrier = Carrier::kRdma;
  LoneShard lone(options);
  std::vector<int32_t> tensor(256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  lone.step();
  const Bytes probe = next_probe(lone);
  lone.transport->is_met = false;
  const auto frames =
      lone.deliver({reply(wire::Request::kProbe, wire::ReplyStatus::kNotMember, control_of(probe).request_id, {})});
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_TRUE(is_request(frames[0], wire::Request::kMeet));
}

// ---- repetition ----

TEST(ShardTimeout, CallAndDataAreRepeatedWithTheVeryBytes) {  // [LOSS-1]
  LoneShard lone(one_of(2));
  std::vector<int32_t> tensor(256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  tensor.assign(256, 6);  // a repetition must not read the tensor again
  const auto repeats = by_slot(lone.pass(milliseconds(9)));
  ASSERT_EQ(repeats.size(), 2U);
  EXPECT_EQ(lone.transport->may_change, (std::vector<bool>{false, false, true, true})) << "answered before they left";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NE(header_of(repeats[i]).flags & wire::kFlagRepeat, 0);
    EXPECT_EQ(without_repeat_flag(repeats[i]), frames[i]);
  }
}

// All six chunks time out, but waiting for a slow rank must not fill the network.
TEST(ShardTimeout, OnlyTheOldestOfALaneIsRepeated) {
  LoneShard lone(one_of(2));
  std::vector<int32_t> tensor(6 * 256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  ASSERT_EQ(lone.step().size(), 7U);
  EXPECT_EQ(slots_of(by_slot(lone.pass(milliseconds(9)))), (std::vector<int>{0, 2}));
  EXPECT_EQ(lone.counters().timeouts.get(), 7U);
  EXPECT_EQ(lone.counters().packets_sent.get(), 7U + 2);
}

/// A barrier of two ranks that waits, and how often its chunk was sent again.
struct Waiting {
  Waiting() {
    lone.submit(barrier());
    lone.step();
  }
  uint64_t repeats() const { return lone.counters().packets_sent.get() - 1; }
  uint64_t lost() const { return lone.counters().retransmissions.get(); }
  uint64_t waited() const { return lone.counters().repeats_waiting.get(); }
  LoneShard lone{one_of(2)};
};

TEST(ShardTimeout, RepeatsOfWhatTheSwitchHasAreCountedApart) {
  Waiting one;
  const Bytes probe = next_probe(one.lone);
  EXPECT_GT(one.repeats(), 0U);
  EXPECT_EQ(one.lost() + one.waited(), 0U) << "nobody knows why";
  one.lone.deliver({probe_reply(probe, 0b11, 0b01)});
  EXPECT_EQ(one.waited(), one.repeats());
  one.lone.pass(milliseconds(900));
  EXPECT_GT(one.waited(), 10U);
  EXPECT_EQ(one.waited(), one.repeats());
  EXPECT_EQ(one.lost(), 0U);
}

TEST(ShardTimeout, RepeatsOfWhatTheSwitchLacksWereLost) {
  Waiting one;
  one.lone.deliver({probe_reply(next_probe(one.lone), 0b11, 0b10)});
  one.lone.shard->request_failure({Code::kAborted, "its end"});
  one.lone.step();
  EXPECT_GT(one.lost(), 0U);
  EXPECT_EQ(one.lost(), one.repeats());
}

TEST(ShardTimeout, WithoutAnAnswerRepeatsCountAsLost) {
  Waiting one;
  next_probe(one.lone);
  next_probe(one.lone);
  EXPECT_GT(one.lost(), 0U);
  EXPECT_LE(one.repeats() - one.lost(), 1U) << "what was sent with the probe";
  EXPECT_EQ(one.waited(), 0U);
}

TEST(ShardTimeout, RepeatsBeforeAResultCountAsLost) {
  LoneShard lone;
  std::vector<int32_t> tensor(10, 1);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  lone.pass(milliseconds(9));
  EXPECT_EQ(lone.counters().retransmissions.get(), 0U);
  lone.deliver({result_of(frames[0])});
  EXPECT_EQ(lone.counters().retransmissions.get(), 2U);
}

// ---- slowness ----

TEST(ShardTimeout, WhoIsAwaitedForLongIsNamedOnceOfEachCall) {
  std::vector<std::string> said;
  LoneOptions options = one_of(3);
  options.slow = {seconds(4), [&said](const Collective& call, const std::string& missing) {
                    said.push_back(std::to_string(call.sequence) + " " + describe(call) + ": " + missing);
                  }};
  LoneShard lone(options);
  std::vector<int32_t> tensor(10, 1);
  Collective call = in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  call.sequence = 7;
  lone.submit(call);
  lone.submit(barrier());
  lone.step();
  const Time begin = lone.now;
  while (lone.now < begin + seconds(20)) {
    EXPECT_TRUE(!said.empty() || lone.now < begin + seconds(6));
    EXPECT_TRUE(said.empty() || lone.now >= begin + seconds(4));
    lone.deliver({probe_reply(next_probe(lone), 0b111, 0b101)});
  }
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].find("7 all_reduce(SUM, int32, 10 elements): no contribution from rank 1 for 4"), 0U) << said[0];
}

TEST(ShardTimeout, WhatACallWaitsForIsShownWithEachProbe) {
  std::vector<EngineWait> shown;
  LoneOptions options = one_of(3);
  options.slow.show = [&shown](const Collective&, const EngineWait& wait) { shown.push_back(wait); };
  LoneShard lone(options);
  lone.submit(barrier());
  const auto frames = lone.step();
  const Time begin = lone.now;
  while (lone.now < begin + seconds(5)) lone.deliver({probe_reply(next_probe(lone), 0b111, 0b101)});
  ASSERT_GE(shown.size(), 2U);
  EXPECT_EQ(shown[0].chunk, 1U);
  EXPECT_EQ(shown[0].slot, 0);
  EXPECT_EQ(shown[0].missing.find("no contribution from rank 1 for"), 0U) << shown[0].missing;
}

// The process itself was stopped.
TEST(ShardTimeout, NobodyIsNamedForATimeInWhichNobodyWasAsked) {
  int said = 0;
  LoneOptions options = one_of(2);
  options.slow = {seconds(4), [&said](const Collective&, const std::string&) { ++said; }};
  LoneShard lone(options);
  lone.submit(barrier());
  const auto frames = lone.step();
  lone.deliver({probe_reply(next_probe(lone), 0b11, 0b01)});
  lone.now += seconds(100);
  lone.step();
  EXPECT_EQ(said, 0);
}

// The oldest may wait for a rank that has found the mismatch and failed: the others must get to find it too.
TEST(ShardTimeout, WhatFailedItsWitnessIsAskedForUntilItIsAnswered) {
  LoneShard lone(one_of(2));
  std::vector<int32_t> tensor(6 * 256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  Bytes wrong = result_of(frames[4]);  // slot 5, of two ranks that disagree
  EXPECT_EQ(slots_of(lone.deliver({wrong})), (std::vector<int>{5})) << "asked again at once";
  auto repeated = slots_of(by_slot(lone.pass(milliseconds(9))));
  EXPECT_EQ(repeated, (std::vector<int>{0, 2, 5})) << "and when that is lost";
  repeated = slots_of(by_slot(lone.pass(milliseconds(17))));
  EXPECT_EQ(repeated, (std::vector<int>{0, 2, 5}));
}

TEST(ShardTimeout, WithEachProbeOneMoreChunkIsRepeatedByTurns) {
  LoneShard lone(one_of(2));
  std::vector<int32_t> tensor(6 * 256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  lone.step();
  std::vector<int> others;
  for (const Bytes& frame : lone.pass(milliseconds(5400))) {
    const bool oldest = is_contribution(frame) && (header_of(frame).slot == 0 || header_of(frame).slot == 2);
    if (is_contribution(frame) && !oldest) others.push_back(header_of(frame).slot);
  }
  EXPECT_EQ(others, (std::vector<int>{3, 4, 5, 6, 7, 3}));
}

// ---- deadlines ----

TEST(ShardTimeout, TheEarliestDeadlineCountsAndNamesItsCall) {
  LoneShard lone(one_of(2));
  Collective late = barrier();
  late.deadline = lone.now + seconds(5);
  Collective early = barrier();
  early.deadline = lone.now + milliseconds(250);
  early.title = "the early one";
  const auto first = lone.submit(late);
  const auto second = lone.submit(early);
  lone.step();
  EXPECT_LE(lone.shard->next_wakeup(), early.deadline);
  lone.pass(milliseconds(249));
  EXPECT_TRUE(first->empty() && second->empty());
  lone.pass(milliseconds(1));
  ASSERT_EQ(second->size(), 1U);
  EXPECT_EQ(second->front().code(), Code::kTimeout);
  EXPECT_EQ(second->front().message().find("the early one did not complete before its timeout passed: "), 0U)
      << second->front().message();
  ASSERT_EQ(first->size(), 1U) << "the session is over";
  EXPECT_EQ(lone.shard->next_wakeup(), kNever);
  EXPECT_EQ(lone.failures.size(), 1U);
}

TEST(ShardTimeout, TheDeadlineOfWhatIsFinishedDoesNotCount) {
  LoneShard lone;
  std::vector<int32_t> tensor(10, 1);
  Collective waits = barrier();
  waits.deadline = lone.now + seconds(3);
  Collective finishes = in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  finishes.deadline = lone.now + milliseconds(100);
  const auto first = lone.submit(waits);
  const auto second = lone.submit(finishes);
  const auto frames = lone.step();
  ASSERT_EQ(frames.size(), 3U);
  lone.deliver({result_of(frames[1]), result_of(frames[2])});
  ASSERT_EQ(second->size(), 1U);
  EXPECT_TRUE(second->front().ok());
  lone.pass(milliseconds(200));
  EXPECT_TRUE(first->empty()) << first->front().to_string();
  lone.pass(seconds(3));
  ASSERT_EQ(first->size(), 1U);
  EXPECT_EQ(first->front().code(), Code::kTimeout);
}

// ---- the switch ----

TEST(ShardTimeout, WhatWaitsForARankThatHasLeftFails) {
  LoneShard lone(one_of(5));
  const auto outcome = lone.submit(barrier());
  lone.step();
  lone.deliver({probe_reply(next_probe(lone), 0b01111, 0b01010)});
  EXPECT_TRUE(outcome->empty());
  lone.deliver({probe_reply(next_probe(lone), 0b01111, 0b01010)});
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  const std::string said = outcome->front().message();
  EXPECT_EQ(said.find("barrier cannot complete: no contribution from rank 0, 2, 4 (left the session) for 1.3"), 0U)
      << said;
}

TEST(ShardTimeout, WhatIsAnsweredMeanwhileWaitsForNobody) {
  LoneShard lone;
  lone.submit(barrier());
  const auto outcome = lone.submit(barrier());
  const auto frames = lone.step();
  lone.deliver({probe_reply(next_probe(lone), 0, 0)});
  lone.deliver({result_of(frames[0]), probe_reply(next_probe(lone), 0, 0)});
  EXPECT_TRUE(outcome->empty() && lone.failures.empty());
}

TEST(ShardTimeout, ASilentSwitchIsGivenUp) {
  LoneShard lone(one_of(2));
  const auto outcome = lone.submit(barrier());
  lone.step();
  lone.pass(seconds(10));  // the first question comes a moment later
  EXPECT_TRUE(outcome->empty());
  lone.pass(milliseconds(600));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  const std::string said = outcome->front().message();
  EXPECT_EQ(said.find("the switch test-switch has not answered for 10"), 0U) << said;
}

TEST(ShardTimeout, AResultPutsTheProbeOff) {
  LoneShard lone;
  EXPECT_TRUE(departures(lone, seconds(2), is_probe).empty()) << "nobody waits";
  std::vector<int32_t> tensor(4 * 256, 1);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  EXPECT_TRUE(departures(lone, milliseconds(200), is_probe).empty());
  lone.deliver({result_of(frames[1])});
  EXPECT_EQ(departures(lone, milliseconds(400), is_probe), (std::vector<Duration>{milliseconds(300)}));
  lone.answer_all({frames[0], frames[2], frames[3], frames[4]});
  EXPECT_TRUE(departures(lone, seconds(2), is_probe).empty());
}

TEST(ShardTimeout, ProbesForTheEarliestCollective) {
  LoneShard lone;
  std::vector<int32_t> tensor(256, 1);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  lone.submit(barrier());
  const auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 1, 2}));
  lone.deliver({result_of(frames[0])});  // left: the barrier's call in slot 1, the tensor's data in slot 2
  const wire::Probe probe = wire::read_probe(next_probe(lone).data() + wire::kControlBytes);
  EXPECT_EQ(probe.slot, 2);
  EXPECT_EQ(probe.seq, 1U);
}

template <typename T>
void refuse(T& transport) {
  transport.error = "connection refused";
  transport.refused = true;
}

TEST(ShardTimeout, ARefusalThatStandsForTwoSecondsEndsTheSession) {
  LoneShard lone(one_of(2));
  const auto outcome = lone.submit(barrier());
  lone.step();
  refuse(*lone.transport);
  lone.pass(milliseconds(1900));
  EXPECT_TRUE(outcome->empty());
  // Something is heard again, so it was a passing state.
  lone.deliver({Bytes(3)});
  lone.pass(milliseconds(1900));
  EXPECT_TRUE(outcome->empty());
  refuse(*lone.transport);
  lone.pass(milliseconds(1900));
  EXPECT_TRUE(outcome->empty());
  lone.pass(milliseconds(200));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  EXPECT_EQ(outcome->front().message(), "the switch test-switch is gone: connection refused");
}

TEST(ShardTimeout, RenewsItsLeaseAndShowsWhatItIsAskedFor) {
  LoneOptions options;
  options.lease = milliseconds(400);
  LoneShard lone(options);
  EXPECT_EQ(lone.shard->next_wakeup(), lone.now + milliseconds(100)) << "with nothing else to do";
  const auto joins = lone.pass(milliseconds(850));
  ASSERT_EQ(joins.size(), 8U);
  for (const Bytes& frame : joins) EXPECT_TRUE(is_request(frame, wire::Request::kJoin));
  wire::JoinReply body;
  body.cookie = 5;
  Bytes bytes(wire::kJoinReplyBytes);
  wire::write_join_reply(body, bytes.data());
  const auto id = control_of(joins.back()).request_id;
  const auto again = lone.deliver({reply(wire::Request::kJoin, wire::ReplyStatus::kProveAddress, id, bytes)});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(wire::read_join(again[0].data() + wire::kControlBytes).cookie, 5U);
}

// ---- with a switch and a network ----

TEST(ShardTimeout, ARankThatDoesNotCallIsNamedAtTheDeadline) {
  Cluster cluster({4, 1, 8, 1024, {}});
  std::vector<float> tensor(100, 1.0F);
  std::vector<std::vector<float>> copies(4, tensor);
  for (const int w : {0, 1, 3}) {
    Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, copies[static_cast<size_t>(w)]);
    c.deadline = cluster.now() + seconds(2);
    cluster.submit(w, c);
  }
  ASSERT_TRUE(cluster.run(seconds(3)));
  ASSERT_EQ(cluster.failures.size(), 3U);
  for (const Status& status : cluster.failures) {
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_NE(status.message().find("no contribution from rank 2 "), std::string::npos) << status.message();
  }
  // Waiting for a straggler must not flood: one packet per lane and timeout, not a window.
  EXPECT_LT(cluster.frames_sent(), 1000U);
}

TEST(ShardTimeout, ASilentSwitchIsNamedAtTheDeadline) {
  Cluster cluster({2, 1, 8, 1024, {}});
  cluster.switch_alive = false;
  std::vector<float> tensor(100, 1.0F);
  Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, tensor);
  c.deadline = cluster.now() + seconds(2);
  const auto outcome = cluster.submit(0, c);
  ASSERT_TRUE(cluster.run(seconds(3)));
  EXPECT_EQ(outcome->front().code(), Code::kTimeout);
  EXPECT_NE(outcome->front().message().find("switch virtual has not answered"), std::string::npos);
}

TEST(ShardTimeout, ARefusingHostEndsTheSessionBeforeTheDeadline) {
  Cluster cluster({2, 1, 8, 1024, {}});
  cluster.switch_alive = false;
  std::vector<float> tensor(100, 1.0F);
  Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, tensor);
  c.deadline = cluster.now() + seconds(1000);
  const auto outcome = cluster.submit(0, c);
  for (int i = 0; i < 30000 && outcome->empty(); ++i) {
    refuse(cluster.transport(0));
    cluster.round();
  }
  ASSERT_FALSE(outcome->empty());
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  EXPECT_NE(outcome->front().message().find("connection refused"), std::string::npos);
}

TEST(ShardTimeout, AStoppedRankDelaysButDoesNotBreak) {
  Cluster cluster({3, 1, 8, 1024, {}});
  Tensors<float> inputs = random_floats(3, 30000, 2), tensors = inputs;
  for (size_t w = 0; w < 3; ++w)
    cluster.submit(static_cast<int>(w), in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[w]));
  for (int i = 0; i < 5; ++i) cluster.round();
  cluster.stopped[1] = true;
  for (int i = 0; i < 50000; ++i) cluster.round();
  cluster.stopped[1] = false;
  ASSERT_TRUE(cluster.run());
  expect_sums(inputs, tensors[1], 256);
}

}  // namespace
}  // namespace switchml::testing
