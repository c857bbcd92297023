#include "transport/shared_link.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/frame_memory.h"
#include "transport/harness.h"

namespace switchml {
namespace {

Endpoint peer_number(size_t number) {
  Endpoint endpoint;
  endpoint.size = 1;
  endpoint.bytes[0] = static_cast<uint8_t>(number);
  return endpoint;
}

/// A link that the test fills, with a few buffers. What it has lent is no longer there after a release.
class FewBuffers final : public Transport, public QueuePairs {
 public:
  struct Notes {
    size_t receives = 0;
    size_t releases = 0;
    size_t waits = 0;
    size_t pauses = 0;
    std::atomic<size_t> wakes{0};
    std::vector<std::pair<Endpoint, Bytes>> sent;
    std::deque<std::pair<Endpoint, Bytes>> arrived;
    bool fragments = true;
    bool used = false;
    Endpoint forgotten;
    bool gone = false;
  };
  FewBuffers(Notes* notes, size_t buffers) : notes_(notes), buffers_(buffers) {}
  ~FewBuffers() override { notes_->gone = true; }

  const char* name() const override { return "few"; }
  QueuePairs* queue_pairs() override { return this; }
  Result<wire::Introduction> queue_pair_for(const Endpoint&) override { return wire::Introduction(); }
  Status connect(const Endpoint&, const wire::Introduction&) override { return {}; }
  bool is_connected(const Endpoint&) const override { return true; }
  TransportLimits limits() const override { return {1000, 2000, 3000}; }
  Endpoint local() const override { return peer_number(200); }
  size_t path_frame_bytes(const Endpoint& to) const override { return to.bytes[0]; }
  void allow_fragments(bool allowed) override { notes_->fragments = allowed; }
  void register_memory(const std::shared_ptr<const TensorMemory>&) override { notes_->used = true; }
  std::optional<wire::Target> target_of(const void*, size_t bytes) override {
    return wire::Target{1, 2, static_cast<uint32_t>(bytes)};
  }
  void disconnect(const Endpoint& peer) override { notes_->forgotten = peer; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      notes_->sent.emplace_back(*frames[i].to, Bytes(frames[i].data, frames[i].data + frames[i].size));
    }
    return count;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    ++notes_->receives;
    size_t n = 0;
    for (; n < count && lent_.size() < buffers_ && !notes_->arrived.empty(); ++n) {
      lent_.push_back(std::move(notes_->arrived.front()));
      notes_->arrived.pop_front();
      const auto& [from, bytes] = lent_.back();
      frames[n] = {bytes.data(), static_cast<uint32_t>(bytes.size()), from};
    }
    return n;
  }
  void release() override {
    ++notes_->releases;
    for (auto& frame : lent_) {
      std::fill(frame.second.begin(), frame.second.end(), 0xee);
      given_back_.push_back(std::move(frame));  // so that a use after it is seen, and no fault
    }
    lent_.clear();
  }
  void wait(Duration) override { ++notes_->waits; }
  void pause(Duration) override { ++notes_->pauses; }
  void wake() override { ++notes_->wakes; }
  std::string take_error() override { return "few: refused"; }
  bool take_refusal() override { return true; }

 private:
  Notes* notes_;
  const size_t buffers_;
  std::deque<std::pair<Endpoint, Bytes>> lent_, given_back_;
  FrameMemory memory_;
};

/// Peers 0 to n - 1 of such a link.
struct Few {
  explicit Few(size_t n, size_t buffers = 4) {
    std::vector<Endpoint> endpoints;
    for (size_t i = 0; i < n; ++i) endpoints.push_back(peer_number(i));
    peers = share_link(std::make_unique<FewBuffers>(&link, buffers), endpoints);
  }
  void arrives(size_t from, uint32_t id) { link.arrived.emplace_back(peer_number(from), pattern(id, 40)); }

  /// Takes up to `count` frames and keeps them.
  std::vector<RxFrame> borrow(size_t peer, size_t count = 32) {
    std::vector<RxFrame> frames(count);
    frames.resize(peers[peer]->receive(frames.data(), count));
    return frames;
  }
  /// Takes up to `count` frames and gives them back; their numbers.
  std::vector<uint32_t> take(size_t peer, size_t count = 32) {
    std::vector<uint32_t> ids = ids_of(peer, borrow(peer, count));
    peers[peer]->release();
    return ids;
  }
  /// The numbers of frames that are lent to a peer, whose they must be, undamaged.
  static std::vector<uint32_t> ids_of(size_t peer, const std::vector<RxFrame>& frames) {
    std::vector<uint32_t> ids;
    for (const RxFrame& frame : frames) {
      EXPECT_EQ(frame.from, peer_number(peer));
      ids.push_back(id_of(frame.data));
      EXPECT_TRUE(Bytes(frame.data, frame.data + frame.size) == pattern(ids.back(), 40)) << ids.back();
    }
    return ids;
  }

  FewBuffers::Notes link;
  std::vector<std::unique_ptr<Transport>> peers;
};

using Ids = std::vector<uint32_t>;

/// A frame that says its kind and its job, where all frames have them.
Bytes frame_of(wire::Kind kind, uint8_t job) {
  Bytes frame(wire::kHeaderBytes);
  frame[0] = static_cast<uint8_t>(wire::kVersion << 4 | static_cast<int>(kind));
  frame[wire::kHeaderOffsetJob] = job;
  return frame;
}

TEST(SharedLink, SessionsAtOneEndpointGetTheResultsOfTheirJobs) {
  FewBuffers::Notes link;
  const auto peers =
      share_link(std::make_unique<FewBuffers>(&link, 4), {peer_number(5), peer_number(6), peer_number(5)});
  const auto send = [&](size_t peer, uint8_t job) {
    const Bytes frame = frame_of(wire::Kind::kExactContribution, job);
    const Endpoint to = peer_number(5);
    EXPECT_EQ(
        peers[peer]->send(std::vector<TxFrame>{{frame.data(), static_cast<uint32_t>(frame.size()), &to}}.data(), 1),
        1U);
  };
  const auto arrives = [&](wire::Kind kind, uint8_t job) {
    link.arrived.emplace_back(peer_number(5), frame_of(kind, job));
  };
  const auto count = [&](size_t peer) {
    std::vector<RxFrame> frames(8);
    const size_t got = peers[peer]->receive(frames.data(), frames.size());
    peers[peer]->release();
    return got;
  };
  send(0, 11);
  arrives(wire::Kind::kExactResult, 11);
  arrives(wire::Kind::kExactResult, 12);
  EXPECT_EQ(count(0), 1U);
  EXPECT_EQ(count(2), 0U) << "it has sent nothing yet";
  send(2, 12);
  arrives(wire::Kind::kExactResult, 12);
  arrives(wire::Kind::kReply, 3);
  EXPECT_EQ(count(2), 2U);
  EXPECT_EQ(count(0), 1U) << "a reply is for whoever has asked";
  send(0, 13);
  arrives(wire::Kind::kResult, 13);
  arrives(wire::Kind::kResult, 11);
  EXPECT_EQ(count(0), 1U) << "another session in its place";
  EXPECT_EQ(count(1), 0U);
  EXPECT_EQ(link.releases, 3U) << "nothing is held";
}

TEST(SharedLink, FramesStayUntilTheirOwnPeerGivesThemBack) {
  Few few(2);
  for (uint32_t i = 0; i < 4; ++i) few.arrives(i % 2, i);
  const auto of_one = few.borrow(1);
  EXPECT_EQ(few.take(0), (Ids{0, 2}));
  few.peers[0]->release();  // again: nothing
  EXPECT_EQ(few.link.releases, 0U) << "the other one has frames";
  EXPECT_EQ(Few::ids_of(1, of_one), (Ids{1, 3}));
  few.peers[1]->release();
  EXPECT_EQ(few.link.releases, 1U);
}

TEST(SharedLink, WhatIsLentInSeveralCallsIsGivenBackAtOnce) {
  Few few(1);
  few.arrives(0, 1);
  const auto first = few.borrow(0);
  few.arrives(0, 2);
  const auto second = few.borrow(0);
  EXPECT_EQ(Few::ids_of(0, first), (Ids{1}));
  EXPECT_EQ(Few::ids_of(0, second), (Ids{2}));
  few.peers[0]->release();
  EXPECT_EQ(few.link.releases, 1U);
}

// Whatever comes for whom, and however little each takes: if all are asked in turn, nothing is lost or kept back.
TEST(SharedLink, AllGetEverythingIfTheyAreAskedInTurn) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    const size_t peers = 1 + random() % 6;
    Few few(peers, 1 + random() % 5);
    std::vector<Ids> sent(peers + 1), got(peers);  // the last one is a stranger
    for (uint32_t i = 0; i < 400; ++i) {
      const size_t from = random() % 3 == 0 ? random() % (peers + 1) : 0;
      few.arrives(from, i);
      sent[from].push_back(i);
      if (random() % 2 == 0) continue;
      for (size_t peer = 0; peer < peers; ++peer) {
        for (const uint32_t id : few.take(peer, 1 + random() % 3)) got[peer].push_back(id);
      }
    }
    for (int round = 0; round < 1000; ++round) {
      for (size_t peer = 0; peer < peers; ++peer) {
        for (const uint32_t id : few.take(peer, 1)) got[peer].push_back(id);
      }
    }
    sent.pop_back();
    ASSERT_EQ(got, sent) << seed;
    EXPECT_TRUE(few.link.arrived.empty());
  }
}

// One that takes less than comes, while the others ask for nothing, is served all the same.
TEST(SharedLink, WhoIsAskedInTurnLosesNothingHoweverLongItTakes) {
  Few few(3, 64);
  Ids sent;
  for (uint32_t i = 0; i < 64; ++i) {
    few.arrives(1, i);
    sent.push_back(i);
  }
  Ids got;
  for (int round = 0; round < 64; ++round) {
    EXPECT_EQ(few.take(0), Ids{});
    for (const uint32_t id : few.take(1, 1)) got.push_back(id);
    EXPECT_EQ(few.take(2), Ids{});
  }
  EXPECT_EQ(got, sent);
}

// Ranks join one switch after the other, and each may answer once more when nobody listens to it.
TEST(SharedLink, WhoIsNotAskedCannotKeepTheBuffersFromTheOthers) {
  for (const size_t buffers : {1, 4}) {
    Few few(3, buffers);
    for (uint32_t i = 0; i < 4; ++i) few.arrives(1, i);
    few.arrives(2, 4);
    Ids got;
    for (int asked = 0; asked < 200 && got.empty(); ++asked) got = few.take(2);
    EXPECT_EQ(got, (Ids{4})) << "it got no buffer";
    few.arrives(1, 5);
    Ids later;
    for (int asked = 0; asked < 3 && later.empty(); ++asked) later = few.take(1);
    EXPECT_EQ(later.empty() ? 0U : later.back(), 5U) << "it is served again when it asks";
  }
}

TEST(SharedLink, ThatThereIsNothingIsAskedOnceForAll) {
  Few few(5);
  for (int round = 1; round <= 3; ++round) {
    for (size_t peer = 0; peer < 5; ++peer) EXPECT_EQ(few.take(peer), Ids{});
    EXPECT_EQ(few.link.receives, static_cast<size_t>(round));
  }
  few.arrives(4, 1);
  Ids got;
  for (size_t peer = 0; peer < 5; ++peer) {
    for (const uint32_t id : few.take(peer)) got.push_back(id);
  }
  EXPECT_EQ(got, (Ids{1})) << "in the round that follows";
}

TEST(SharedLink, NobodyWaitsWhileAnyPeerHasFrames) {
  Few few(3);
  few.peers[0]->wait(seconds(60));
  EXPECT_EQ(few.link.waits, 1U);
  few.arrives(2, 1);
  EXPECT_EQ(few.take(0), Ids{});
  for (const auto& peer : few.peers) peer->wait(seconds(60));
  EXPECT_EQ(few.link.waits, 1U) << "a frame was there";
  few.peers[0]->pause(seconds(60));
  EXPECT_EQ(few.link.pauses, 1U) << "whatever arrives";
  EXPECT_EQ(few.take(2), (Ids{1}));
  few.peers[1]->wait(seconds(60));
  EXPECT_EQ(few.link.waits, 2U);
}

TEST(SharedLink, AllElseIsTheLinks) {
  Few few(2);
  const Endpoint to = peer_number(9);
  const Bytes frame = pattern(1, 30);
  const TxFrame tx{frame.data(), 30, &to};
  size_t held = 0;
  for (const auto& peer : few.peers) {
    EXPECT_STREQ(peer->name(), "few");
    EXPECT_EQ(peer->local(), peer_number(200));
    EXPECT_EQ(peer->path_frame_bytes(to), 9U);
    EXPECT_EQ(peer->limits().max_frame_bytes, 1000U);
    EXPECT_EQ(peer->limits().receive_buffer_bytes, 2000U);
    held += peer->limits().held_bytes;
    EXPECT_EQ(peer->send(&tx, 1), 1U);
    EXPECT_NE(peer->allocate(100), nullptr);
    EXPECT_EQ(peer->take_error(), "few: refused");
    EXPECT_FALSE(peer->take_refusal()) << "of which peer?";
    peer->allow_fragments(false);
    EXPECT_FALSE(std::exchange(few.link.fragments, true));
    EXPECT_EQ(peer->queue_pairs()->target_of(frame.data(), 30)->bytes, 30U);
    peer->queue_pairs()->register_memory(nullptr);
    EXPECT_TRUE(std::exchange(few.link.used, false));
    peer->queue_pairs()->disconnect(to);
    EXPECT_EQ(std::exchange(few.link.forgotten, Endpoint()), to);
  }
  EXPECT_EQ(held, 3000U) << "counted once";
  ASSERT_EQ(few.link.sent.size(), 2U);
  EXPECT_EQ(few.link.sent[1].first, to);
  EXPECT_EQ(few.link.sent[1].second, frame);
}

TEST(SharedLink, LivesAsLongAsOneOfItsTransports) {
  Few few(3);
  few.peers[0].reset();
  few.peers[2].reset();
  few.arrives(1, 5);
  EXPECT_EQ(few.take(1), (Ids{5}));
  EXPECT_FALSE(few.link.gone);
  few.peers[1].reset();
  EXPECT_TRUE(few.link.gone);
}

TEST(SharedLink, AnyOfThemWakesFromAnotherThread) {
  Few few(2);
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) few.peers[1]->wake();
  });
  for (int i = 0; i < 1000; ++i) few.peers[0]->wake();
  other.join();
  EXPECT_EQ(few.link.wakes, 2000U);
}

}  // namespace
}  // namespace switchml
