#include "softswitch/installed.h"

#include <gtest/gtest.h>

#include "exact.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {
namespace {

WorkerSet members(std::initializer_list<int> numbers) {
  WorkerSet set;
  for (const int number : numbers) set.insert(number);
  return set;
}

InstalledSession session(std::initializer_list<int> numbers) {
  InstalledSession s;
  s.job = 200;
  s.epoch = 0xabcdef01;
  s.slots = 8;
  s.payload_bytes = 256;
  s.members = members(numbers);
  return s;
}

class Installed : public ::testing::Test {
 protected:
  std::vector<Sent> put(int worker, uint32_t seq, std::vector<int32_t> words, int from) {
    Contribution c;
    c.worker = static_cast<uint8_t>(worker);
    c.seq = seq;
    c.words = std::move(words);
    return bench_.put(contribution_frame(c, 200, 0xabcdef01), endpoint(from));
  }
  void place(int worker, int at) { EXPECT_TRUE(bench_.sw.set_member(200, 0xabcdef01, worker, -1, endpoint(at)).ok()); }
  Bench bench_;
};

TEST_F(Installed, MembersOfAnyNumberAreAggregated) {
  ASSERT_TRUE(bench_.sw.install(session({3, 90}), bench_.now).ok());
  EXPECT_TRUE(put(3, 1, {1}, 1).empty()) << "no member has a place yet";
  place(3, 1);
  place(90, 2);
  EXPECT_TRUE(put(3, 1, {1}, 1).empty());
  const auto sent = put(90, 1, {2}, 2);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{endpoint(1), endpoint(2)}));
  EXPECT_EQ(result_of(sent[0].frame).words, (std::vector<int32_t>{3}));
}

TEST_F(Installed, AMemberThatMovesIsHeardFromItsNewPlaceOnly) {
  ASSERT_TRUE(bench_.sw.install(session({0}), bench_.now).ok());
  place(0, 1);
  place(0, 2);
  EXPECT_TRUE(put(0, 1, {5}, 1).empty());
  const auto sent = put(0, 1, {5}, 2);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, std::vector<Endpoint>{endpoint(2)});
}

TEST_F(Installed, ALeafHandsItsSumUpAndResultsDown) {
  InstalledSession leaf = session({4, 5});
  leaf.uplink = Uplink{4, endpoint(77)};
  ASSERT_TRUE(bench_.sw.install(leaf, bench_.now).ok());
  place(4, 1);
  place(5, 2);
  put(4, 1, {10}, 1);
  auto sent = put(5, 1, {20}, 2);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, std::vector<Endpoint>{endpoint(77)});
  const wire::Header up = wire::read_header(sent[0].frame.data());
  EXPECT_EQ(up.kind, static_cast<uint8_t>(wire::Kind::kContribution));
  EXPECT_EQ(up.worker, 4);
  wire::Header down = up;
  down.kind = static_cast<uint8_t>(wire::Kind::kResult);
  down.worker = kAllWorkers;
  std::vector<uint8_t> frame = sent[0].frame;
  wire::write_header(down, frame.data());
  EXPECT_TRUE(bench_.put(frame, endpoint(1)).empty()) << "a member is not the parent";
  sent = bench_.put(frame, endpoint(77));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].frame, frame);
  EXPECT_EQ(sent[0].to, (std::vector<Endpoint>{endpoint(1), endpoint(2)}));
  EXPECT_EQ(bench_.sw.counters().results_passed_down.get(), 1U);
  EXPECT_EQ(bench_.sw.counters().dropped_source.get(), 1U);
}

/// A leaf of three members, complete. What one of them repeats: whether anything goes up.
class LeafRounds : public Installed, public ::testing::WithParamInterface<bool> {
 protected:
  LeafRounds() {
    InstalledSession leaf = session({4, 5, 70});
    leaf.exact = GetParam();
    leaf.uplink = Uplink{4, endpoint(77)};
    EXPECT_TRUE(bench_.sw.install(leaf, bench_.now).ok());
    for (const int member : {4, 5, 70}) place(member, member);
    use(1);
  }
  void use(uint32_t seq) {
    for (const int member : {4, 5, 70}) up_ = contribute(member, seq);
    ASSERT_EQ(up_.size(), 1U);
  }
  std::vector<Sent> contribute(int member, uint32_t seq) { return bench_.put(frame_of(member, seq), endpoint(member)); }
  static std::vector<uint8_t> frame_of(int member, uint32_t seq) {
    if (GetParam()) return exact_frame(floats(member, {1, 2}, seq), 200, 0xabcdef01, {});
    Contribution c;
    c.worker = static_cast<uint8_t>(member);
    c.seq = seq;
    c.words = {1, 2};
    return contribution_frame(c, 200, 0xabcdef01);
  }
  /// What goes up where the members' packets say so.
  Ecn aggregate(uint32_t seq, Ecn first, Ecn second, Ecn third) {
    bench_.put(frame_of(4, seq), endpoint(4), first);
    bench_.put(frame_of(5, seq), endpoint(5), second);
    up_ = bench_.put(frame_of(70, seq), endpoint(70), third);
    EXPECT_EQ(up_.size(), 1U);
    return up_.empty() ? Ecn::kOther : up_[0].ecn;
  }
  bool goes_up(int member, uint32_t seq = 1) {
    const auto sent = contribute(member, seq);
    if (sent.empty()) return false;
    EXPECT_EQ(sent[0].to, std::vector<Endpoint>{endpoint(77)});
    return true;
  }
  /// By the parent.
  std::vector<Sent> answer(uint32_t seq, Ecn ecn = Ecn::kNone) {
    std::vector<uint8_t> frame = up_[0].frame;
    if (GetParam()) {
      wire::ExactHeader h = wire::read_exact_header(frame.data());
      h.kind = static_cast<uint8_t>(wire::Kind::kExactResult);
      h.worker = kAllWorkers;
      h.seq = seq;
      wire::seal_exact(h, {}, frame.data(), frame.size() - wire::kExactHeaderBytes);
    } else {
      wire::Header h = wire::read_header(frame.data());
      h.kind = static_cast<uint8_t>(wire::Kind::kResult);
      h.worker = kAllWorkers;
      h.seq = seq;
      wire::write_header(h, frame.data());
    }
    return bench_.put(frame, endpoint(77), ecn);
  }

 private:
  std::vector<Sent> up_;  // of the last use
};

TEST_P(LeafRounds, TheFirstAndTheLastOfThemAskForAll) {  // [TREE-6, ETREE-4]
  EXPECT_TRUE(goes_up(5));
  EXPECT_FALSE(goes_up(70));
  EXPECT_TRUE(goes_up(4));
  EXPECT_EQ(bench_.sw.counters().duplicates_answered.get(), 2U);
  EXPECT_EQ(bench_.sw.counters().duplicates_dropped.get(), 1U);
}

TEST_P(LeafRounds, WhoRepeatsTwiceHasWaitedInVain) {
  EXPECT_TRUE(goes_up(5));
  EXPECT_TRUE(goes_up(5));
  EXPECT_FALSE(goes_up(70));
  EXPECT_TRUE(goes_up(70));
  EXPECT_FALSE(goes_up(5)) << "a round of its own";
  EXPECT_TRUE(goes_up(4));
  EXPECT_TRUE(goes_up(70)) << "all had repeated";
}

TEST_P(LeafRounds, EndWithAnAnswer) {
  EXPECT_TRUE(goes_up(5));
  answer(1);
  EXPECT_TRUE(goes_up(70));
  EXPECT_FALSE(goes_up(5));
}

TEST_P(LeafRounds, AMarkGoesUpAndDown) {  // [ECN-1, ECN-2]
  constexpr Ecn none = Ecn::kNone, capable = Ecn::kCapable, marked = Ecn::kMarked;
  EXPECT_EQ(aggregate(2, capable, capable, capable), capable);
  EXPECT_EQ(aggregate(3, capable, none, capable), none) << "one would not heed it";
  EXPECT_EQ(aggregate(4, none, capable, capable), none);
  EXPECT_EQ(aggregate(5, capable, marked, capable), marked);
  EXPECT_EQ(aggregate(6, marked, none, capable), marked);
  EXPECT_EQ(aggregate(7, capable, capable, marked), marked);
  for (const Ecn ecn : {none, capable, marked}) {
    const auto down = answer(7, ecn);
    ASSERT_EQ(down.size(), 1U);
    EXPECT_EQ(down[0].ecn, ecn);
  }
  const auto again = bench_.put(frame_of(4, 7), endpoint(4), marked);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].ecn, marked);
}

TEST_P(LeafRounds, AreOfTheirUse) {
  EXPECT_TRUE(goes_up(5, 1));
  use(2);
  EXPECT_TRUE(goes_up(70, 2));
  EXPECT_FALSE(goes_up(70, 1));
  use(3);
  EXPECT_TRUE(goes_up(70, 3)) << "a new use in the place of the first";
  answer(1);
  EXPECT_FALSE(goes_up(5, 3)) << "that was no answer to it";
}

INSTANTIATE_TEST_SUITE_P(Sorts, LeafRounds, ::testing::Bool(),
                         [](const auto& sort) { return sort.param ? "Exact" : "Integers"; });

TEST_F(Installed, HasNoLease) {
  ASSERT_TRUE(bench_.sw.install(session({0}), bench_.now).ok());
  bench_.now += seconds(100000);
  bench_.sw.sweep(bench_.now);
  EXPECT_EQ(bench_.sw.sessions(), 1);
}

TEST_F(Installed, TheSameAgainChangesNothingAndAnotherIsRefused) {
  ASSERT_TRUE(bench_.sw.install(session({0, 1}), bench_.now).ok());
  place(0, 1);
  place(1, 2);
  put(0, 1, {1}, 1);
  EXPECT_TRUE(bench_.sw.install(session({0, 1}), bench_.now).ok());
  EXPECT_EQ(put(1, 1, {2}, 2).size(), 1U) << "the use that had begun is still there";
  std::vector<InstalledSession> others(5, session({0, 1}));
  others[0].epoch += 1;
  others[1].slots = 16;
  others[2].payload_bytes = 512;
  others[3].members = members({0, 2});
  others[4].uplink = Uplink{0, endpoint(9)};
  for (const InstalledSession& other : others) {
    const Status status = bench_.sw.install(other, bench_.now);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  }
}

TEST_F(Installed, BadValuesAreRefusedByName) {
  struct Case {
    const char* text;
    InstalledSession session;
  };
  std::vector<Case> cases(8, {"", session({0})});
  cases[0].text = "job 0 ", cases[0].session.job = 0;
  cases[1].text = "epoch 0 ", cases[1].session.epoch = 0;
  cases[2].text = "shards 0 ", cases[2].session.shards = 0;
  cases[3].text = "slots 0 ", cases[3].session.slots = 0;
  cases[4].text = "slots 9 ", cases[4].session.slots = 9, cases[4].session.shards = 2;
  cases[5].text = "payload 300 ", cases[5].session.payload_bytes = 300;
  cases[6].text = "number of members 0 ", cases[6].session.members = {};
  cases[7].text = "parent", cases[7].session.uplink = Uplink{};
  for (const Case& c : cases) {
    const Status status = bench_.sw.install(c.session, bench_.now);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(c.text), std::string::npos) << c.text << ": " << status.message();
  }
  EXPECT_EQ(bench_.sw.sessions(), 0);
}

TEST(InstalledLimits, SlotsNeedMemory) {
  SwitchOptions options;
  options.slot_memory_bytes = 8 * SlotStore::slot_bytes(256);
  Bench bench(options);
  EXPECT_TRUE(bench.sw.install(session({0}), bench.now).ok());
  InstalledSession second = session({0});
  second.job = 201;
  EXPECT_EQ(bench.sw.install(second, bench.now).code(), Code::kUnavailable);
  bench.sw.remove(200, 1);
  EXPECT_EQ(bench.sw.sessions(), 1) << "another epoch's session";
  bench.sw.remove(200, 0xabcdef01);
  EXPECT_TRUE(bench.sw.install(second, bench.now).ok());
  bench.sw.remove_all();
  EXPECT_EQ(bench.sw.sessions(), 0);
  EXPECT_EQ(bench.sw.slot_memory_in_use(), 0U);
}

TEST_F(Installed, MembersThatAreNoneCannotBePlaced) {
  ASSERT_TRUE(bench_.sw.install(session({3, 90}), bench_.now).ok());
  for (const int worker : {-1, 0, 4, 91, 128}) {
    const Status status = bench_.sw.set_member(200, 0xabcdef01, worker, 0, endpoint(1));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << worker;
  }
  EXPECT_FALSE(bench_.sw.set_member(200, 0xabcdef01, 3, 1, endpoint(1)).ok()) << "shard";
  EXPECT_FALSE(bench_.sw.set_member(200, 0xabcdef02, 3, 0, endpoint(1)).ok()) << "epoch";
}

TEST_F(Installed, ContributorsOfAUse) {
  ASSERT_TRUE(bench_.sw.install(session({3, 90}), bench_.now).ok());
  place(3, 1);
  place(90, 2);
  put(90, 1, {1}, 2);
  EXPECT_EQ(bench_.sw.contributed(200, 0xabcdef01, 0, 1).value(), members({90}));
  EXPECT_EQ(bench_.sw.contributed(200, 0xabcdef01, 0, 2).value(), members({}));
  put(3, 3, {1}, 1);
  EXPECT_EQ(bench_.sw.contributed(200, 0xabcdef01, 0, 1).value(), members({3, 90})) << "replaced, so complete";
  EXPECT_FALSE(bench_.sw.contributed(200, 0xabcdef01, 8, 1).ok());
  EXPECT_FALSE(bench_.sw.contributed(200, 0xabcdef01, 0, 0).ok());
  EXPECT_FALSE(bench_.sw.contributed(200, 7, 0, 1).ok());
}

/// Keeps what it is handed.
struct Tap : ControlTap {
  void request(const uint8_t* frame, size_t size, const Endpoint& from) override {
    frames.emplace_back(frame, frame + size);
    senders.push_back(from);
  }
  std::vector<std::vector<uint8_t>> frames;
  std::vector<Endpoint> senders;
};

TEST_F(Installed, RequestsGoToTheController) {
  Tap tap;
  bench_.sw.hand_requests_to(&tap);
  uint8_t frame[wire::kMaxControlBytes];
  const size_t size = wire::build_close({}, 1, frame);
  EXPECT_TRUE(bench_.put({frame, frame + size}, endpoint(6)).empty());
  ASSERT_EQ(tap.frames.size(), 1U);
  EXPECT_EQ(tap.frames[0], std::vector<uint8_t>(frame, frame + size));
  EXPECT_EQ(tap.senders[0], endpoint(6));
}

// Also while no controller is there.
TEST_F(Installed, AnOpenIsToldOfTheController) {
  Tap tap;
  bench_.sw.hand_requests_to(&tap);
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = 2;
  open.shards = 1;
  open.payload = 256;
  const size_t size = wire::build_open(open, 1, frame);
  const auto sent = bench_.put({frame, frame + size}, endpoint(6));
  ASSERT_EQ(sent.size(), 1U);
  wire::Reply reply;
  ASSERT_EQ(wire::parse_reply(sent[0].frame.data(), sent[0].frame.size(), &reply), wire::ParseError::kNone);
  EXPECT_EQ(reply.status, wire::ReplyStatus::kControlled);
  EXPECT_TRUE(tap.frames.empty());
  EXPECT_EQ(bench_.sw.sessions(), 0);
}

}  // namespace
}  // namespace switchml::softswitch
