#include "transport/sealed_link.h"

#include <map>
#include <set>

#include "base/random.h"
#include "transport/harness.h"
#include "wire/control.h"
#ifdef SWITCHML_FAKE_VERBS
#include "transport/rdma/two_cards.h"
#endif

namespace switchml {
namespace {

SealKey key_of(uint8_t fill) {
  SealKey key;
  key.bytes.fill(fill);
  return key;
}

Bytes plain_of(wire::Kind kind, uint32_t id, size_t size) {
  Bytes bytes = pattern(id, size);
  bytes[0] = static_cast<uint8_t>(wire::kVersion << 4 | static_cast<uint8_t>(kind));
  return bytes;
}
Bytes up(uint32_t id, size_t size = 200) { return plain_of(wire::Kind::kContribution, id, size); }
Bytes down(uint32_t id, size_t size = 200) { return plain_of(wire::Kind::kResult, id, size); }
Bytes join_of(uint32_t epoch) {
  Bytes bytes(wire::kMaxControlBytes);
  wire::Membership member;
  member.epoch = epoch;
  bytes.resize(wire::build_join(member, 0, 1, bytes.data()));
  return bytes;
}

/// All that has come by now.
std::vector<Bytes> arrived(Transport& transport) {
  std::vector<Bytes> got;
  RxFrame frames[32];
  for (size_t n = 0; (n = transport.receive(frames, 32)) != 0; transport.release()) {
    for (size_t i = 0; i < n; ++i) got.emplace_back(frames[i].data, frames[i].data + frames[i].size);
  }
  return got;
}

/// What stands between a link and the network: it may look at frames, change them, and send its own.
class Tap final : public TransportDecorator {
 public:
  using Sent = std::vector<std::pair<Endpoint, Bytes>>;
  Tap(std::unique_ptr<Transport> below, std::shared_ptr<Sent> sent)
      : TransportDecorator(*below), below_(std::move(below)), sent_(std::move(sent)) {}
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i)
      sent_->emplace_back(*frames[i].to, Bytes(frames[i].data, frames[i].data + frames[i].size));
    return below_->send(frames, count);
  }

 private:
  const std::unique_ptr<Transport> below_;
  const std::shared_ptr<Sent> sent_;
};

/// A network that takes nothing for one peer, as TCP does where that one has not read for long.
class Stuck final : public TransportDecorator {
 public:
  explicit Stuck(std::unique_ptr<Transport> below) : TransportDecorator(*below), below_(std::move(below)) {}
  size_t send(const TxFrame* frames, size_t count) override {
    size_t refused = count;
    for (size_t i = 0; i < count; ++i) {
      if (is_stuck && *frames[i].to == peer) {
        refused = std::min(refused, i);
      } else {
        below_->send(&frames[i], 1);
      }
    }
    return refused;
  }
  Endpoint peer;
  bool is_stuck = false;

 private:
  const std::unique_ptr<Transport> below_;
};

/// A member and a switch in one process, and an attacker that is in between.
class SealedLinkTest : public testing::Test {
 protected:
  SealedLinkTest() { reset_member(key_of(1)); }

  std::unique_ptr<Transport> make(SealEnd end, const SealKey& key, std::shared_ptr<SealCounters> counters,
                                  std::shared_ptr<Tap::Sent> sent) {
    SealOptions options;
    options.counters = std::move(counters);
    return seal_link(std::make_unique<Tap>(hub->attach(), std::move(sent)), key, end, options);
  }
  void reset_member(const SealKey& key) { member = make(SealEnd::kMember, key, member_counters, from_member); }
  void send_up(const Bytes& frame) { ASSERT_EQ(send_all(*member, {frame}, at_switch->local()), 1u); }
  void send_down(const Bytes& frame) { ASSERT_EQ(send_all(*at_switch, {frame}, member->local()), 1u); }
  void make_channel() {
    send_up(up(0));
    EXPECT_TRUE(arrived(*at_switch).empty());
    EXPECT_TRUE(arrived(*member).empty());
    EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{up(0)});
  }
  /// As if from the member, or from the switch.
  void inject_up(const Bytes& frame) { hub->deliver(member->local(), at_switch->local(), frame.data(), frame.size()); }
  void inject_down(const Bytes& frame) {
    hub->deliver(at_switch->local(), member->local(), frame.data(), frame.size());
  }

  std::shared_ptr<InprocHub> hub = InprocHub::create({});
  std::shared_ptr<SealCounters> member_counters = std::make_shared<SealCounters>();
  std::shared_ptr<SealCounters> switch_counters = std::make_shared<SealCounters>();
  std::shared_ptr<Tap::Sent> from_member = std::make_shared<Tap::Sent>(), from_switch = std::make_shared<Tap::Sent>();
  std::unique_ptr<Transport> at_switch = make(SealEnd::kSwitch, key_of(1), switch_counters, from_switch);
  std::unique_ptr<Transport> member;
};

// [SEAL-1, SEAL-11]
TEST_F(SealedLinkTest, TheFirstFrameTakesOneRoundTripMore) {
  make_channel();
  for (uint32_t i = 1; i < 100; ++i) {
    send_up(up(i, 8 + i));
    send_down(down(i, 9 + i));
    EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{up(i, 8 + i)});
    EXPECT_EQ(arrived(*member), std::vector<Bytes>{down(i, 9 + i)});
  }
  EXPECT_EQ(member_counters->channels, 1u);
  for (const auto& sent : {from_member, from_switch}) {
    for (const auto& [to, bytes] : *sent) EXPECT_TRUE(seal::is_sealed(bytes.data(), bytes.size()));
  }
}

// More than leaves at once.
TEST_F(SealedLinkTest, AMemberThatDoesNotReadKeepsNoResultsFromOthers) {
  auto network = std::make_unique<Stuck>(hub->attach());
  Stuck& below = *network;
  at_switch = seal_link(std::move(network), key_of(1), SealEnd::kSwitch);
  make_channel();
  const auto other = make(SealEnd::kMember, key_of(1), nullptr, from_member);
  for (int i = 0; i < 2; ++i) {
    send_all(*other, {up(0)}, at_switch->local());
    arrived(*at_switch);
    arrived(*other);
  }
  below.peer = member->local();
  below.is_stuck = true;
  const Endpoint to = other->local();
  const Bytes result = down(1, 900);
  std::vector<TxFrame> frames;
  for (int i = 0; i < 1000; ++i) {
    frames.push_back({result.data(), static_cast<uint32_t>(result.size()), i % 2 == 0 ? &below.peer : &to});
  }
  EXPECT_EQ(at_switch->send(frames.data(), frames.size()), 0u);
  EXPECT_EQ(arrived(*other), std::vector<Bytes>(500, result));
  EXPECT_TRUE(arrived(*member).empty());
}

// A member that names memory breaks a rule. The switch, which has other members, goes on. [SEAL-18]
TEST_F(SealedLinkTest, AResultForNamedMemoryIsNotSent) {
  make_channel();
  const Endpoint to = member->local();
  const Bytes result = down(1);
  TxFrame frame{result.data(), static_cast<uint32_t>(result.size()), &to};
  frame.target.bytes = 4;
  EXPECT_EQ(at_switch->send(&frame, 1), 1u);
  EXPECT_TRUE(arrived(*member).empty());
  EXPECT_NE(at_switch->take_error(), "");
  send_down(result);
  EXPECT_EQ(arrived(*member), std::vector<Bytes>{result});
}

TEST_F(SealedLinkTest, NothingOfAFrameIsReadable) {
  make_channel();
  const Bytes plain(1000, 0x5a);
  send_up(plain);
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{plain});
  for (const auto& [to, bytes] : *from_member)
    EXPECT_EQ(std::search_n(bytes.begin(), bytes.end(), 4, 0x5a), bytes.end());
}

TEST_F(SealedLinkTest, FramesArePassedOnInOnePieceOfWhateverLength) {
  make_channel();
  const size_t most = member->limits().max_frame_bytes;
  EXPECT_EQ(most + 24, hub->options().max_frame_bytes);
  EXPECT_EQ(member->path_frame_bytes(at_switch->local()), most);
  EXPECT_TRUE(member->gathers());
  const Bytes whole = up(1, most);
  const Endpoint to = at_switch->local();
  std::vector<TxFrame> frames;
  for (const size_t cut : {size_t{1}, size_t{24}, size_t{1000}, most - 1, most}) {
    TxFrame frame{whole.data(), static_cast<uint32_t>(cut), &to};
    frame.rest = whole.data() + cut;
    frame.rest_size = static_cast<uint32_t>(most - cut);
    frames.push_back(frame);
  }
  EXPECT_EQ(member->send(frames.data(), frames.size()), frames.size());
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>(frames.size(), whole));
  send_up(up(2, most + 1));
  EXPECT_NE(member->take_error().find("is longer than"), std::string::npos);
  EXPECT_TRUE(arrived(*at_switch).empty());
}

TEST_F(SealedLinkTest, LongBurstsLeaveWhole) {
  make_channel();
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 200; ++i) frames.push_back(up(i, 10 + 97 * i));
  EXPECT_EQ(send_all(*member, frames, at_switch->local()), frames.size());
  EXPECT_EQ(arrived(*at_switch), frames);
}

// [SEAL-15]
TEST_F(SealedLinkTest, PlainFramesAreDroppedAndCounted) {
  make_channel();
  inject_up(up(1));
  inject_up(Bytes(1, 0x57));
  inject_down(down(1));
  EXPECT_TRUE(arrived(*at_switch).empty());
  EXPECT_TRUE(arrived(*member).empty());
  EXPECT_EQ(switch_counters->dropped_plain, 2u);
  EXPECT_EQ(member_counters->dropped_plain, 1u);
}

// [SEAL-6, SEAL-7]
TEST_F(SealedLinkTest, RepeatedChangedAndReflectedFramesAreDropped) {
  make_channel();
  send_up(up(1));
  Bytes frame = from_member->back().second;
  arrived(*at_switch);
  inject_up(frame);
  inject_down(frame);
  frame[100] ^= 1;
  inject_up(frame);
  frame[7] ^= 0x55;
  inject_up(frame);
  EXPECT_TRUE(arrived(*at_switch).empty());
  EXPECT_TRUE(arrived(*member).empty());
  EXPECT_EQ(switch_counters->dropped_replayed, 2u);
  EXPECT_EQ(switch_counters->dropped_forged, 1u);
  EXPECT_EQ(member_counters->dropped_forged, 1u);
  send_up(up(2));
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{up(2)});
}

TEST_F(SealedLinkTest, AnotherKeyIsNotHeardAndTheErrorSaysWhatMayBeWrong) {
  reset_member(key_of(2));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(member->take_error(), "");
    send_up(up(0));
  }
  EXPECT_TRUE(arrived(*at_switch).empty());
  EXPECT_EQ(switch_counters->dropped_forged, 3u);
  EXPECT_TRUE(from_switch->empty());
  EXPECT_NE(member->take_error().find("does not answer encrypted greetings: has it the same key?"), std::string::npos);
}

// An attacker sends greetings back to where they came from, or to another member.
TEST_F(SealedLinkTest, AMemberAnswersNoGreeting) {
  send_up(up(0));
  inject_down(from_member->front().second);
  EXPECT_TRUE(arrived(*member).empty());
  EXPECT_EQ(member_counters->dropped_forged, 1u);
  EXPECT_EQ(from_member->size(), 1u);
}

// A child switch greets its parent, and answers others. [SEAL-12]
TEST_F(SealedLinkTest, ASwitchDoesNotAnswerItself) {
  const auto child = make(SealEnd::kSwitch, key_of(1), member_counters, from_member);
  const Bytes request = join_of(1);
  send_all(*child, {request}, at_switch->local());
  const Bytes greeting = from_member->front().second;
  hub->deliver(at_switch->local(), child->local(), greeting.data(), greeting.size());
  EXPECT_TRUE(arrived(*child).empty());
  EXPECT_EQ(from_member->size(), 1u);
  EXPECT_TRUE(arrived(*at_switch).empty());
  EXPECT_TRUE(arrived(*child).empty());
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{request});
  // Both roles at once: members of the child's.
  send_all(*member, {up(0)}, child->local());
  arrived(*child);
  arrived(*member);
  EXPECT_EQ(arrived(*child), std::vector<Bytes>{up(0)});
  send_all(*child, {down(1)}, member->local());
  send_all(*child, {up(2)}, at_switch->local());
  EXPECT_EQ(arrived(*member), std::vector<Bytes>{down(1)});
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{up(2)});
}

// [SEAL-13]
TEST_F(SealedLinkTest, AJoinOfAnotherEpochMakesNewKeys) {
  make_channel();
  for (uint32_t epoch = 1; epoch < 20; ++epoch) {
    send_up(join_of(epoch));
    send_down(down(epoch));
    EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{join_of(epoch)});
    EXPECT_EQ(arrived(*member), std::vector<Bytes>{down(epoch)});
  }
  EXPECT_EQ(member_counters->channels, 19u);  // the first join makes none
}

TEST_F(SealedLinkTest, ASwitchThatWasBegunAnewIsHeardAgain) {
  make_channel();
  const Endpoint before = at_switch->local();
  at_switch = make(SealEnd::kSwitch, key_of(1), switch_counters, from_switch);
  // The new one takes the old one's address, as far as the member can see.
  const auto pass = [&] {
    for (const auto& [to, bytes] : *from_member) {
      if (to == before) inject_up(bytes);
    }
    from_member->clear();
    std::vector<Bytes> got = arrived(*at_switch);
    for (const auto& [to, bytes] : *from_switch) hub->deliver(before, member->local(), bytes.data(), bytes.size());
    from_switch->clear();
    arrived(*member);
    return got;
  };
  from_member->clear();
  from_switch->clear();
  for (int i = 0; i < 2; ++i) {
    send_all(*member, {join_of(1)}, before);
    EXPECT_TRUE(pass().empty());
  }
  EXPECT_EQ(pass(), (std::vector<Bytes>{join_of(1)}));
}

// [SEAL-16]
TEST_F(SealedLinkTest, GreetingsPushOutNoMemberThatWasHeard) {
  make_channel();
  const seal::GreetingKey key(key_of(1));
  const seal::Greeting replayed(key, 0, random_bytes);
  for (uint32_t i = 0; i < 5000; ++i) {
    const Endpoint stranger = inproc::numbered(1000 + i);
    hub->deliver(stranger, at_switch->local(), replayed.frame().data(), replayed.frame().size());
    if (i % 500 == 0) arrived(*at_switch);
  }
  arrived(*at_switch);
  send_up(up(1));
  EXPECT_EQ(arrived(*at_switch), std::vector<Bytes>{up(1)});
}

// [SEAL-16]
TEST_F(SealedLinkTest, TheMemberThatHasBeenSilentLongestGoesFirst) {
  make_channel();
  std::vector<std::unique_ptr<Transport>> others;
  const auto add = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      others.push_back(make(SealEnd::kMember, key_of(1), member_counters, from_member));
      send_all(*others.back(), {up(0)}, at_switch->local());
      arrived(*at_switch);
      arrived(*others.back());
      ASSERT_EQ(arrived(*at_switch).size(), 1u);
    }
  };
  add(4095);
  send_up(up(1));
  EXPECT_EQ(arrived(*at_switch).size(), 1u);
  add(1);
  send_up(up(2));
  EXPECT_EQ(arrived(*at_switch).size(), 1u);
  send_all(*others.front(), {up(3)}, at_switch->local());
  EXPECT_TRUE(arrived(*at_switch).empty());
}

/// Over every kind of transport, with what it lends.
class SealedLinkOver : public testing::TestWithParam<Kind> {};

TEST_P(SealedLinkOver, FramesGoBothWays) {
  const auto network = GetParam().network(65000, 4 << 20);
  auto at_switch = seal_link(network(), key_of(1), SealEnd::kSwitch);
  auto member = seal_link(network(), key_of(1), SealEnd::kMember);
  const Endpoint to = at_switch->local();
  std::vector<Bytes> sent;
  for (uint32_t i = 0; i < 40; ++i) sent.push_back(up(i, i % 3 == 0 ? 20000 : 1432));
  Endpoint from;
  std::set<Bytes> got;
  RxFrame frames[32];
  const Time end = monotonic_now() + seconds(60);
  while (got.size() < sent.size() && monotonic_now() < end) {
    // Whatever is lost goes again, as an engine does it.
    send_all(*member, {sent[got.size()]}, to);
    for (int i = 0; i < 50; ++i) {
      arrived(*member);
      const size_t n = at_switch->receive(frames, 32);
      for (size_t k = 0; k < n; ++k) {
        got.emplace(frames[k].data, frames[k].data + frames[k].size);
        from = frames[k].from;
      }
      if (n > 0) at_switch->release();
      if (n > 0) break;
      at_switch->wait(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ(got, std::set<Bytes>(sent.begin(), sent.end()));
  std::vector<Bytes> results;
  for (uint32_t i = 0; i < 20; ++i) results.push_back(down(i, 1000 + i));
  EXPECT_EQ(send_all(*at_switch, results, from), results.size());
  EXPECT_EQ(collect(*member, results.size(), [&] { arrived(*at_switch); }), results);
}

std::vector<Kind> single_kinds() {
  std::vector<Kind> all = kinds();
  all.erase(std::remove_if(all.begin(), all.end(), [](const Kind& kind) { return kind.name.find("shared") == 0; }),
            all.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, SealedLinkOver, testing::ValuesIn(single_kinds()),
                         [](const auto& each) { return each.param.name; });

#ifdef SWITCHML_FAKE_VERBS

/// A worker with a card, and both links of a switch at one address: its socket, and its card.
class SealedCards : public testing::Test {
 protected:
  SealedCards() {
    const Endpoint at = by_udp->local();
    RdmaOptions options = smaller(), asking = smaller();
    options.local = at;
    asking.local = literal_address("127.0.0.1", 0).value();
    asking.asks = UdpOptions();
    asking.asks->peer = at;
    by_card = seal_link(std::move(make_rdma_transport(options).value()), key_of(1), SealEnd::kSwitch);
    SealOptions counted;
    counted.counters = counters;
    worker = seal_link(std::move(make_rdma_transport(asking).value()), key_of(1), SealEnd::kMember, counted);
    to = with_carrier(at, Carrier::kRdma);
  }
  static RdmaOptions smaller() {
    RdmaOptions options;
    options.library = SWITCHML_FAKE_VERBS;
    options.max_frame_bytes = 8256;
    options.receive_frames = 64;
    return options;
  }
  /// Sends a frame until it comes to one of the switch's links, and answers it there.
  void go_to(Transport& link, Transport& other, const Bytes& frame, const Bytes& answer) {
    const Time end = monotonic_now() + seconds(60);
    RxFrame got;
    size_t n = 0;
    while (n == 0 && monotonic_now() < end) {
      send_all(*worker, {frame}, to);
      for (int i = 0; i < 100 && n == 0; ++i) {
        arrived(*worker);
        EXPECT_TRUE(arrived(other).empty());
        n = link.receive(&got, 1);
        if (n == 0) link.wait(std::chrono::milliseconds(1));
      }
    }
    ASSERT_EQ(n, 1U);
    EXPECT_EQ(Bytes(got.data, got.data + got.size), frame);
    send_all(link, {answer}, got.from);
    link.release();
    arrived(link);  // The same, sent again.
    EXPECT_EQ(collect(*worker, 1), std::vector<Bytes>{answer});
  }

  const fake_verbs::Library library;
  std::unique_ptr<Transport> by_udp = seal_link(open_udp(on("127.0.0.1:0")), key_of(1), SealEnd::kSwitch);
  std::unique_ptr<Transport> by_card, worker;
  std::shared_ptr<SealCounters> counters = std::make_shared<SealCounters>();
  Endpoint to;
};

// [SEAL-17]
TEST_F(SealedCards, WhatGoesBesideAQueuePairHasAChannelOfItsOwn) {
  Bytes meet = plain_of(wire::Kind::kRequest, 1, 80);
  meet[1] = static_cast<uint8_t>(wire::Request::kMeet);
  Bytes probe = plain_of(wire::Kind::kRequest, 2, 80);
  probe[1] = static_cast<uint8_t>(wire::Request::kProbe);
  const Bytes reply = plain_of(wire::Kind::kReply, 3, 80);
  go_to(*by_udp, *by_card, meet, reply);
  go_to(*by_udp, *by_card, probe, reply);
  introduce(*worker, *by_card);
  go_to(*by_card, *by_udp, probe, reply);
  go_to(*by_card, *by_udp, up(4, 5000), down(5, 5000));
  go_to(*by_udp, *by_card, meet, reply);
  EXPECT_EQ(counters->channels, 2u);
}

// [SEAL-18]
TEST_F(SealedCards, NoTensorIsReachedByACard) {
  const auto tensor = std::make_shared<OneTensor>(100);
  worker->queue_pairs()->register_memory(tensor);
  EXPECT_FALSE(worker->queue_pairs()->target_of(tensor->bytes.data(), 100));
}

#endif

}  // namespace
}  // namespace switchml
