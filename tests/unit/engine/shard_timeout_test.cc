// What happens when nothing happens: repetition, deadlines, probes, leases, and what is said at the end.
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
wire::Probe probe_of(const Bytes& frame) { return wire::read_probe(frame.data() + wire::kControlBytes); }

Bytes probe_reply(uint32_t request_id, uint64_t joined, uint64_t contributed, uint16_t dropped_length = 0) {
  wire::ProbeReply body;
  body.dropped_length = dropped_length;
  body.joined_low = joined;
  body.contributed_low = contributed;
  Bytes bytes(wire::kProbeReplyBytes);
  wire::write_probe_reply(body, bytes.data());
  return reply(wire::Request::kProbe, wire::ReplyStatus::kOk, request_id, bytes);
}

// ---- repetition ----

TEST(ShardTimeout, BacksOffUpToTheLimit) {
  LoneShard lone(one_of(2));
  lone.submit(barrier());
  const auto first = lone.step();
  ASSERT_EQ(first.size(), 1U);
  const auto times = departures(lone, milliseconds(300), is_contribution);
  const std::vector<int> expected = {8, 8 + 16, 8 + 16 + 32, 8 + 16 + 32 + 50, 8 + 16 + 32 + 50 + 50};
  ASSERT_GE(times.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_GE(times[i], milliseconds(expected[i])) << i;
    EXPECT_LE(times[i], milliseconds(expected[i]) + microseconds(1000 * (i + 1))) << i << ": a tick late each";
  }
  EXPECT_EQ(lone.counters().timeouts.get(), times.size());
  EXPECT_EQ(lone.counters().retransmissions.get(), times.size());
}

TEST(ShardTimeout, CallAndDataAreRepeatedWithTheVeryBytes) {  // [LOSS-1]
  LoneShard lone(one_of(2));
  std::vector<int32_t> tensor(256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  tensor.assign(256, 6);  // a repetition must not read the tensor again
  const auto repeats = by_slot(lone.pass(milliseconds(9)));
  ASSERT_EQ(repeats.size(), 2U);
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
  EXPECT_EQ(lone.counters().retransmissions.get(), 2U);
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

TEST(ShardTimeout, WhatWasSentBeforeAnAnsweredChunkIsLost) {
  LoneShard lone;
  std::vector<int32_t> tensor(6 * 256, 5);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  // The last but one is answered: 2 and 3 (repaired at once), 4 and 5 were lost before it; of 7 nothing is known.
  EXPECT_EQ(slots_of(lone.deliver({result_of(frames[5])})), (std::vector<int>{2, 3}));
  auto repeated = slots_of(by_slot(lone.pass(milliseconds(9))));
  repeated.erase(std::unique(repeated.begin(), repeated.end()), repeated.end());
  EXPECT_EQ(repeated, (std::vector<int>{0, 2, 4, 5}));
}

// Karn: the answer to a repeated frame may belong to either copy, so it is no measurement.
TEST(ShardTimeout, OnlyUnambiguousRoundTripsChangeTheTimeout) {
  const auto first_repeat = [](Duration answered_after) {
    LoneShard lone;
    lone.submit(barrier());
    const auto frames = lone.step();
    lone.pass(answered_after);
    lone.deliver({result_of(frames[0])});
    lone.submit(barrier());
    EXPECT_EQ(lone.step().size(), 1U);
    return departures(lone, milliseconds(60), is_contribution).at(0);
  };
  EXPECT_GE(first_repeat(milliseconds(10)), milliseconds(8)) << "repeated after 8 ms, answered: still the default";
  EXPECT_LT(first_repeat(milliseconds(1)), milliseconds(5)) << "measured: 3 ms";
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

// ---- what is missing ----

/// Runs a barrier among five to its deadline of 2 s; `react` may answer each frame. Returns the message.
template <typename F>
std::string last_words(F&& react) {
  LoneShard lone(one_of(5));
  Collective c = barrier();
  c.deadline = lone.now + seconds(2);
  const auto outcome = lone.submit(c);
  std::vector<Bytes> frames = lone.step();
  for (int i = 0; i < 4200 && outcome->empty(); ++i) {
    for (const Bytes& frame : frames) react(lone, frame);
    frames = lone.pass(microseconds(500));
  }
  EXPECT_EQ(outcome->size(), 1U);
  if (outcome->empty()) return "";
  EXPECT_EQ(outcome->front().code(), Code::kTimeout);
  return outcome->front().message();
}

TEST(ShardTimeout, SaysThatTheSwitchIsSilent) {
  const std::string said = last_words([](LoneShard&, const Bytes&) {});
  EXPECT_NE(said.find("the switch test-switch has not answered for 2 s"), std::string::npos) << said;
}

TEST(ShardTimeout, SaysWhatTheNetworkComplainedAbout) {
  const std::string said = last_words([](LoneShard& lone, const Bytes& frame) {
    if (is_probe(frame) && lone.now > Time(seconds(2))) lone.transport->error = "no route";
  });
  EXPECT_NE(said.find("has not answered for 2 s (no route)"), std::string::npos) << said;
}

TEST(ShardTimeout, NamesTheRanksThatDidNotContribute) {
  const std::string said = last_words([](LoneShard& lone, const Bytes& frame) {
    if (is_probe(frame)) lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 0b11111, 0b01010));
  });
  EXPECT_NE(said.find("no contribution from rank 0, 2, 4 for 2 s"), std::string::npos) << said;
}

TEST(ShardTimeout, SaysWhatTheSwitchDroppedForItsLength) {
  const auto words = [](uint16_t dropped) {
    return last_words([dropped](LoneShard& lone, const Bytes& frame) {
      if (is_probe(frame))
        lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 0b11111, 0b11101, dropped));
    });
  };
  EXPECT_EQ(words(0).find("dropped_length"), std::string::npos);
  std::string said = words(12);
  EXPECT_NE(said.find("no contribution from rank 1"), std::string::npos) << said;
  EXPECT_NE(said.find("dropped_length of the switch is 12: a host sends bursts as one packet"), std::string::npos)
      << said;
  said = words(65535);
  EXPECT_NE(said.find("dropped_length of the switch is 65535 or more:"), std::string::npos) << said;
}

// ---- who has left ----

/// Whether the n-th probe is answered once or, as a network may, twice; and that rank 4 of 5 has left.
std::shared_ptr<std::vector<Status>> wait_for_who_left(LoneShard& lone, int answers, int copies, uint64_t contributed) {
  const auto outcome = lone.submit(barrier());
  std::vector<Bytes> frames = lone.step();
  for (int i = 0; i < 10000 && answers > 0; ++i) {
    for (const Bytes& frame : frames) {
      if (!is_probe(frame)) continue;
      for (int copy = 0; copy < copies; ++copy) {
        lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 0b01111, contributed));
      }
      --answers;
    }
    frames = lone.pass(microseconds(500));
  }
  EXPECT_EQ(answers, 0);
  lone.step();
  return outcome;
}

TEST(ShardTimeout, WhoHasLeftIsNotWaitedFor) {
  LoneShard lone(one_of(5));
  const auto outcome = wait_for_who_left(lone, 2, 1, 0b01010);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  const std::string said = outcome->front().message();
  EXPECT_EQ(said.find("barrier cannot complete: no contribution from rank 0, 2, 4 (left the session) for 1.3"), 0U)
      << said;
}

TEST(ShardTimeout, OneAnswerThatARankHasLeftMayBeOvertakenByWhatItSent) {
  LoneShard lone(one_of(5));
  EXPECT_TRUE(wait_for_who_left(lone, 1, 2, 0b01010)->empty());
}

TEST(ShardTimeout, WhoHasContributedMayLeave) {
  LoneShard lone(one_of(5));
  EXPECT_TRUE(wait_for_who_left(lone, 4, 1, 0b11010)->empty());
}

// ---- a switch that says nothing ----

LoneOptions patient_for(Duration time, bool controlled = false) {
  LoneOptions options = one_of(2);
  options.switch_patience = time;
  options.controlled = controlled;
  return options;
}

TEST(ShardTimeout, ASilentSwitchIsGivenUp) {
  for (const int patience : {1, 3, 10}) {
    LoneShard lone(patient_for(seconds(patience)));
    const auto outcome = lone.submit(barrier());
    lone.step();
    lone.pass(seconds(patience));  // the first question comes a moment later
    EXPECT_TRUE(outcome->empty()) << patience;
    lone.pass(milliseconds(600));
    ASSERT_EQ(outcome->size(), 1U) << patience;
    EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
    const std::string said = outcome->front().message();
    EXPECT_EQ(said.find("the switch test-switch has not answered for " + std::to_string(patience)), 0U) << said;
  }
}

TEST(ShardTimeout, ASwitchThatAnswersIsNotGivenUp) {
  LoneShard lone(patient_for(seconds(1)));
  const auto outcome = lone.submit(barrier());
  std::vector<Bytes> frames = lone.step();
  int probes = 0;
  for (int i = 0; i < 20000; ++i) {
    for (const Bytes& frame : frames) {
      if (!is_probe(frame) || ++probes % 3 != 0) continue;  // two in three are lost
      lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 3, 1));
    }
    frames = lone.pass(microseconds(500));
  }
  EXPECT_GT(probes, 30);
  EXPECT_TRUE(outcome->empty());
}

TEST(ShardTimeout, AProcessThatWasStoppedHasAskedNothing) {
  LoneShard lone(patient_for(seconds(3)));
  const auto outcome = lone.submit(barrier());
  lone.step();
  lone.pass(milliseconds(400));
  lone.now += seconds(100);
  lone.pass(seconds(1));
  EXPECT_TRUE(outcome->empty()) << outcome->front().to_string();
}

TEST(ShardTimeout, AControllersSilenceSaysNothingOfTheSwitch) {
  LoneShard lone(patient_for(seconds(1), true));
  const auto outcome = lone.submit(barrier());
  lone.step();
  lone.pass(seconds(30));
  EXPECT_TRUE(outcome->empty());
}

TEST(ShardTimeout, ASwitchThatWasRestartedKnowsNoSession) {
  LoneShard lone(one_of(2));
  const auto outcome = lone.submit(barrier());
  lone.step();
  for (const Bytes& frame : lone.pass(milliseconds(350))) {
    if (!is_probe(frame)) continue;
    const uint32_t id = control_of(frame).request_id;
    lone.transport->inbox.push_back(reply(wire::Request::kProbe, wire::ReplyStatus::kUnknownSession, id, {}));
  }
  lone.step();
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  EXPECT_EQ(outcome->front().message().find("the switch test-switch no longer knows this session"), 0U);
}

TEST(ShardTimeout, SaysThatOnlyTheResultIsMissing) {
  const std::string said = last_words([](LoneShard& lone, const Bytes& frame) {
    if (is_probe(frame)) lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 0b11111, 0b11111));
  });
  EXPECT_NE(said.find("test-switch has every contribution, but its result does not arrive"), std::string::npos) << said;
}

TEST(ShardTimeout, AnAnswerToAnotherProbeOrARefusalSaysNothing) {
  const std::string said = last_words([](LoneShard& lone, const Bytes& frame) {
    if (!is_probe(frame)) return;
    const uint32_t id = control_of(frame).request_id;
    lone.transport->inbox.push_back(probe_reply(id - 1, 0b11111, 0b01010));
    lone.transport->inbox.push_back(reply(wire::Request::kProbe, wire::ReplyStatus::kNotMember, id, {}));
  });
  EXPECT_NE(said.find("has not answered"), std::string::npos) << said;
}

TEST(ShardTimeout, AnOldAnswerSaysNothingAboutThePresent) {
  LoneShard lone(one_of(2));
  Collective c = barrier();
  c.deadline = lone.now + seconds(4);
  const auto outcome = lone.submit(c);
  lone.step();
  for (const Bytes& frame : lone.pass(milliseconds(400))) {
    if (is_probe(frame)) lone.transport->inbox.push_back(probe_reply(control_of(frame).request_id, 3, 1));
  }
  lone.pass(seconds(4));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_NE(outcome->front().message().find("has not answered"), std::string::npos) << outcome->front().message();
}

// ---- probes, socket_errors, leases ----

TEST(ShardTimeout, ProbesAfterASilenceAndThenEverySecond) {
  LoneShard lone(one_of(2));
  EXPECT_TRUE(departures(lone, seconds(2), is_probe).empty()) << "nobody waits";
  lone.submit(barrier());
  lone.step();
  EXPECT_EQ(departures(lone, milliseconds(2400), is_probe),
            (std::vector<Duration>{milliseconds(300), milliseconds(1300), milliseconds(2300)}));
}

TEST(ShardTimeout, AResultPutsTheProbeOff) {
  LoneShard lone;
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
  std::vector<wire::Probe> probes;
  for (const Bytes& frame : lone.pass(milliseconds(350))) {
    if (is_probe(frame)) probes.push_back(probe_of(frame));
  }
  ASSERT_EQ(probes.size(), 1U);
  EXPECT_EQ(probes[0].slot, 2);
  EXPECT_EQ(probes[0].seq, 1U);
  EXPECT_EQ(probes[0].job, 9);
  EXPECT_EQ(probes[0].epoch, 0xabcdU);
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

// A link that is down for a moment: the kernel has no route, which says nothing of the switch.
TEST(ShardTimeout, AnUnreachableNetworkIsNoRefusal) {
  LoneShard lone(one_of(2));
  const auto outcome = lone.submit(barrier());
  lone.step();
  std::string message;
  for (int tenths = 1; message.empty() && tenths < 300; ++tenths) {
    lone.transport->error = "network is unreachable";
    lone.pass(milliseconds(100));
    if (!outcome->empty()) message = outcome->front().message();
    EXPECT_TRUE(tenths > 80 || message.empty()) << "after " << tenths << " tenths of a second";
  }
  EXPECT_NE(message.find("the switch test-switch has not answered for"), std::string::npos) << message;
  EXPECT_NE(message.find("network is unreachable"), std::string::npos) << message;
}

TEST(ShardTimeout, RenewsItsLeaseFourTimesPerLease) {  // [LEASE-5]
  LoneOptions options;
  options.lease = milliseconds(400);
  LoneShard lone(options);
  EXPECT_EQ(lone.shard->next_wakeup(), lone.now + milliseconds(100)) << "with nothing else to do";
  std::vector<Bytes> joins;
  for (const Bytes& frame : lone.pass(milliseconds(850))) {
    ASSERT_TRUE(is_request(frame, wire::Request::kJoin));
    joins.push_back(frame);
  }
  ASSERT_EQ(joins.size(), 8U);
  const wire::Join join = wire::read_join(joins[0].data() + wire::kControlBytes);
  EXPECT_EQ(join.session_key, 4711U);
  EXPECT_EQ(join.job, 9);
  EXPECT_EQ(join.worker, 0);
  EXPECT_EQ(join.shard, 0);
}

TEST(ShardTimeout, IsHeardOftenHoweverLongTheLease) {  // [LEASE-5]
  Route route;
  route.lease = std::chrono::minutes(30);
  EXPECT_EQ(route.renewal(), seconds(450));
  route.most_silence = seconds(5);
  EXPECT_EQ(route.renewal(), seconds(5));
  route.lease = seconds(4);
  EXPECT_EQ(route.renewal(), seconds(1));
}

TEST(ShardTimeout, AKeepAliveShowsWhatItIsAskedForAtOnce) {  // [COOKIE-3]
  LoneOptions options;
  options.lease = milliseconds(400);
  LoneShard lone(options);
  const auto shown = [](const std::vector<Bytes>& frames) {
    std::vector<uint64_t> cookies;
    for (const Bytes& frame : frames) {
      if (is_request(frame, wire::Request::kJoin)) {
        cookies.push_back(wire::read_join(frame.data() + wire::kControlBytes).cookie);
      }
    }
    return cookies;
  };
  const auto asked_for = [&lone](const Bytes& request, uint64_t cookie) {
    wire::JoinReply body;
    body.cookie = cookie;
    Bytes bytes(wire::kJoinReplyBytes);
    wire::write_join_reply(body, bytes.data());
    const uint32_t id = wire::read_control(request.data()).request_id;
    return lone.deliver({reply(wire::Request::kJoin, wire::ReplyStatus::kProveAddress, id, bytes)});
  };
  using Cookies = std::vector<uint64_t>;
  auto frames = lone.pass(milliseconds(110));
  EXPECT_EQ(shown(frames), (Cookies{0}));
  frames = asked_for(frames.back(), 5);
  EXPECT_EQ(shown(frames), (Cookies{5})) << "at once";
  EXPECT_TRUE(shown(asked_for(frames.back(), 6)).empty()) << "not endlessly";
  frames = lone.pass(milliseconds(100));
  EXPECT_EQ(shown(frames), (Cookies{6})) << "from now on";
  EXPECT_EQ(shown(asked_for(frames.back(), 7)), (Cookies{7})) << "its address has changed";
  EXPECT_EQ(shown(lone.pass(milliseconds(100))), (Cookies{7}));
  EXPECT_TRUE(lone.failures.empty());
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
