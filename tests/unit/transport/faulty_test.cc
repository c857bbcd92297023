#include "transport/faulty.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "transport/harness.h"

namespace switchml {
namespace {

constexpr size_t kFrames = 20000;

/// Sends kFrames numbered frames in bursts of `burst` through the faults; returns what arrived, in order.
std::vector<Bytes> through(const Faults& faults, size_t burst, size_t size = 32, bool receive_side = false) {
  InprocHub::Options options;
  options.queue_frames = 2 * kFrames + 100;
  const auto hub = InprocHub::create(options);
  Faults none;
  auto sender = make_faulty_transport(hub->attach(), receive_side ? none : faults);
  auto receiver = make_faulty_transport(hub->attach(), receive_side ? faults : none);
  for (size_t sent = 0; sent < kFrames; sent += burst) {
    std::vector<Bytes> frames;
    for (size_t i = 0; i < burst; ++i) frames.push_back(pattern(static_cast<uint32_t>(sent + i), size));
    EXPECT_EQ(send_all(*sender, frames, receiver->local()), burst);
  }
  std::vector<Bytes> got;
  RxFrame frames[32];
  for (size_t n = 0; (n = receiver->receive(frames, 32)) != 0; receiver->release()) {
    for (size_t i = 0; i < n; ++i) got.emplace_back(frames[i].data, frames[i].data + frames[i].size);
  }
  return got;
}

std::vector<uint32_t> ids(const std::vector<Bytes>& frames) {
  std::vector<uint32_t> out;
  for (const Bytes& frame : frames) out.push_back(id_of(frame.data()));
  return out;
}

Faults everything(uint64_t seed) {
  Faults faults;
  faults.seed = seed;
  faults.send_loss = faults.duplicate = faults.delay = faults.corrupt = 0.05;
  return faults;
}

TEST(Faulty, TheSameSeedDecidesTheSame) { EXPECT_EQ(through(everything(7), 20), through(everything(7), 20)); }

TEST(Faulty, DecisionsDoNotDependOnTheBursts) { EXPECT_EQ(through(everything(7), 1), through(everything(7), 32)); }

TEST(Faulty, AnotherSeedDecidesOtherwise) { EXPECT_NE(through(everything(7), 20), through(everything(8), 20)); }

TEST(Faulty, LossIsNearItsProbability) {
  for (const bool receive_side : {false, true}) {
    for (const double probability : {0.01, 0.1, 0.5}) {
      Faults faults;
      (receive_side ? faults.receive_loss : faults.send_loss) = probability;
      const auto lost = static_cast<double>(kFrames - through(faults, 20, 32, receive_side).size());
      const double expected = probability * kFrames;
      EXPECT_NEAR(lost, expected, 6 * std::sqrt(expected)) << probability;  // six sigma: a given seed is in it or not
    }
  }
}

TEST(Faulty, DuplicatesArriveTwiceAndIntact) {
  Faults faults;
  faults.duplicate = 0.1;
  std::map<uint32_t, int> seen;
  for (const Bytes& frame : through(faults, 20)) {
    ASSERT_TRUE(frame == pattern(id_of(frame.data()), 32));
    ++seen[id_of(frame.data())];
  }
  ASSERT_EQ(seen.size(), kFrames);
  const auto twice = std::count_if(seen.begin(), seen.end(), [](const auto& entry) { return entry.second == 2; });
  EXPECT_NEAR(static_cast<double>(twice), 2000, 270);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& entry) { return entry.second <= 2; }));
}

TEST(Faulty, CorruptionFlipsExactlyOneBit) {
  Faults faults;
  faults.corrupt = 0.1;
  const std::vector<Bytes> got = through(faults, 20);
  ASSERT_EQ(got.size(), kFrames);  // order is kept: frame i is the i-th
  int corrupted = 0;
  std::map<size_t, int> places;
  for (uint32_t i = 0; i < kFrames; ++i) {
    const Bytes expected = pattern(i, 32);
    ASSERT_EQ(got[i].size(), expected.size());
    int bits = 0;
    for (size_t at = 0; at < expected.size(); ++at) {
      const int different = __builtin_popcount(static_cast<unsigned>(got[i][at] ^ expected[at]));
      bits += different;
      if (different != 0) ++places[at];
    }
    ASSERT_LE(bits, 1) << i;
    corrupted += bits;
  }
  EXPECT_NEAR(corrupted, 2000, 270);
  EXPECT_EQ(places.size(), 32U) << "every byte has its turn";
}

TEST(Faulty, TheCallersFrameIsNotTouched) {
  const auto hub = InprocHub::create({});
  Faults faults;
  faults.corrupt = 1.0;
  const auto a = make_faulty_transport(hub->attach(), faults);
  const auto b = hub->attach();
  const std::vector<Bytes> frames(10, pattern(3, 64));
  send_all(*a, frames, b->local());
  for (const Bytes& frame : frames) EXPECT_TRUE(frame == pattern(3, 64));
  for (const Bytes& frame : collect(*b, 10)) EXPECT_FALSE(frame == pattern(3, 64));
}

TEST(Faulty, DelayedFramesComeLaterWithinTheBound) {
  Faults faults;
  faults.delay = 0.1;
  faults.delay_frames = 5;
  const std::vector<uint32_t> got = ids(through(faults, 20));
  // All but the last few, which no later frame has pushed out.
  ASSERT_GE(got.size(), kFrames - 5);
  size_t late = 0;
  uint32_t newest = 0;
  for (const uint32_t id : got) {
    if (id < newest) {
      ++late;
      EXPECT_LE(newest - id, 5U);
    }
    newest = std::max(newest, id);
  }
  EXPECT_NEAR(static_cast<double>(late), 2000, 400);
}

/// Takes three frames of each burst, as a transport with full buffers does.
class Narrow : public Transport {
 public:
  const char* name() const override { return "narrow"; }
  TransportLimits limits() const override { return {}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return 0; }
  uint8_t* allocate(size_t /*bytes*/) override { return nullptr; }
  size_t send(const TxFrame* /*frames*/, size_t count) override { return std::min<size_t>(count, 3); }
  size_t receive(RxFrame* /*frames*/, size_t /*count*/) override { return 0; }
  void release() override {}
  void wait(Duration /*timeout*/) override {}
  void wake() override {}
  std::string take_error() override { return "narrow"; }
  bool take_refusal() override { return true; }
};

TEST(Faulty, TellsWhereABurstWasCutOff) {
  const std::vector<Bytes> frames(10, pattern(3, 64));
  Faults faults;
  EXPECT_EQ(send_all(*make_faulty_transport(std::make_unique<Narrow>(), faults), frames, Endpoint{}), 3U);
  faults.duplicate = 1.0;  // the first frame twice, the second once: the second is the first that is not wholly taken
  EXPECT_EQ(send_all(*make_faulty_transport(std::make_unique<Narrow>(), faults), frames, Endpoint{}), 1U);
  faults = Faults{};
  faults.send_loss = 1.0;
  const auto lossy = make_faulty_transport(std::make_unique<Narrow>(), faults);
  EXPECT_EQ(send_all(*lossy, frames, Endpoint{}), 10U);
  EXPECT_STREQ(lossy->name(), "narrow");
  EXPECT_EQ(lossy->take_error(), "narrow");
  EXPECT_TRUE(lossy->take_refusal());
}

/// Lends a frame at a time.
class Lender final : public Narrow {
 public:
  explicit Lender(int* releases) : releases_(releases) {}
  size_t receive(RxFrame* frames, size_t /*count*/) override {
    frames[0] = {&byte_, 1, {}};
    return 1;
  }
  void release() override { ++*releases_; }

 private:
  const uint8_t byte_ = 7;
  int* releases_;
};

TEST(Faulty, WhatItLendsStaysThoughAllThatFollowsIsLost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    int releases = 0;
    Faults faults;
    faults.seed = seed;
    faults.receive_loss = 0.95;
    const auto transport = make_faulty_transport(std::make_unique<Lender>(&releases), faults);
    RxFrame frame;
    while (transport->receive(&frame, 1) == 0) continue;
    releases = 0;
    for (int i = 0; i < 10; ++i) transport->receive(&frame, 1);
    EXPECT_EQ(releases, 0) << seed;
    transport->release();
    EXPECT_EQ(releases, 1) << seed;
  }
}

}  // namespace
}  // namespace switchml
