// What every transport promises (transport/transport.h), over each of them.
#include "transport/transport.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "transport/harness.h"

namespace switchml {
namespace {

class AnyTransport : public ::testing::TestWithParam<Kind> {
 protected:
  void open(size_t max_frame_bytes = 65507, size_t queue_bytes = size_t{16} << 20) {
    make_ = GetParam().network(max_frame_bytes, queue_bytes);
    a_ = make_();
    b_ = make_();
    ASSERT_TRUE(a_ && b_);
  }
  /// Whoever uses a transport waits or receives now and then, and so lets it do what it could not do at once.
  void drive() {
    for (Transport* transport : {a_.get(), b_.get()}) {
      if (transport != nullptr) transport->wait(nanoseconds(0));
    }
  }
  std::vector<Bytes> collect(Transport& transport, size_t count) {
    return switchml::collect(transport, count, [this] { drive(); });
  }
  /// Receives `count` frames without releasing any, in calls of up to `bite`.
  void lend(Transport& transport, RxFrame* frames, size_t count, size_t bite) {
    size_t got = 0;
    const Time end = monotonic_now() + seconds(60);
    while (got < count && monotonic_now() < end) {
      got += transport.receive(frames + got, std::min(bite, count - got));
      drive();
    }
    ASSERT_EQ(got, count);
  }

  std::function<std::unique_ptr<Transport>()> make_;
  std::unique_ptr<Transport> a_, b_;
};

void expect_same_frames(std::vector<Bytes> got, std::vector<Bytes> expected) {
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == expected[i]) << "frame of " << expected[i].size() << " bytes";
}

TEST_P(AnyTransport, DeliversABurstOfMixedSizesIntact) {
  open();
  const size_t sizes[] = {20,   21,   276,  276, 276, 1044,  1044,  1044,  1000,  1044, 4116, 8212,
                          8212, 8212, 8211, 20,  20,  32788, 32788, 64532, 64532, 22,   63,   65507};
  std::vector<Bytes> frames;
  for (const size_t size : sizes) frames.push_back(pattern(static_cast<uint32_t>(frames.size()), size));
  EXPECT_EQ(send_all(*a_, frames, b_->local()), frames.size());
  expect_same_frames(collect(*b_, frames.size()), frames);
  EXPECT_EQ(a_->take_error(), "");
  EXPECT_EQ(b_->take_error(), "");
}

TEST_P(AnyTransport, GathersAFrameFromTwoPlaces) {
  open();
  if (!a_->gathers()) GTEST_SKIP() << "it sends from one place only";
  const Bytes frame = pattern(7, 5000);
  const Endpoint at = b_->local();
  const TxFrame split{frame.data(), 32, &at, frame.data() + 32, 4968};
  EXPECT_EQ(a_->send(&split, 1), 1U);
  expect_same_frames(collect(*b_, 1), {frame});
}

TEST_P(AnyTransport, DeliversLongRunsOfEqualFrames) {
  open();
  for (const size_t size : {20, 276, 1044, 8212}) {
    std::vector<Bytes> frames;
    for (uint32_t i = 0; i < 150; ++i) frames.push_back(pattern(i, size));
    EXPECT_EQ(send_all(*a_, frames, b_->local()), frames.size());
    expect_same_frames(collect(*b_, frames.size()), frames);
  }
}

TEST_P(AnyTransport, AnEmptyBurstIsNothing) {
  open();
  EXPECT_EQ(a_->send(nullptr, 0), 0U);
  RxFrame frame;
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  b_->release();
}

TEST_P(AnyTransport, TellsWhoSentAndAnswersReachIt) {
  open();
  send_all(*a_, {pattern(1, 100)}, b_->local());
  RxFrame frame;
  ASSERT_NO_FATAL_FAILURE(lend(*b_, &frame, 1, 1));
  if (GetParam().sends_from_local) {
    EXPECT_EQ(frame.from, a_->local());
  } else {
    EXPECT_TRUE(same_address(frame.from, a_->local())) << to_string(frame.from);
  }
  const Endpoint back = frame.from;
  b_->release();
  send_all(*b_, {pattern(2, 50)}, back);
  expect_same_frames(collect(*a_, 1), {pattern(2, 50)});
}

TEST_P(AnyTransport, LentFramesKeepTheirBytesUntilRelease) {
  open();
  std::vector<Bytes> first;
  for (uint32_t i = 0; i < 8; ++i) first.push_back(pattern(i, 1044));
  send_all(*a_, first, b_->local());
  RxFrame lent[8];
  // Several calls without a release: what was lent before stays.
  ASSERT_NO_FATAL_FAILURE(lend(*b_, lent, 8, 3));
  for (uint32_t round = 0; round < 8; ++round) send_all(*a_, {pattern(100 + round, 1044)}, b_->local());
  RxFrame more[4];
  b_->wait(milliseconds(50));
  b_->receive(more, 4);
  std::vector<Bytes> copies;
  for (const RxFrame& frame : lent) copies.emplace_back(frame.data, frame.data + frame.size);
  expect_same_frames(copies, first);
  b_->release();
}

TEST_P(AnyTransport, ReceivesInSmallBitesWithoutLoss) {
  open();
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 40; ++i) frames.push_back(pattern(i, i % 2 == 0 ? 276 : 276 + i));
  for (uint32_t i = 40; i < 90; ++i) frames.push_back(pattern(i, 512));
  send_all(*a_, frames, b_->local());
  std::vector<Bytes> got;
  const Time end = monotonic_now() + seconds(60);
  RxFrame lent[3];
  while (got.size() < frames.size() && monotonic_now() < end) {
    const size_t n = b_->receive(lent, 3);
    for (size_t i = 0; i < n; ++i) got.emplace_back(lent[i].data, lent[i].data + lent[i].size);
    b_->release();
    if (n == 0) drive();
  }
  expect_same_frames(got, frames);
}

TEST_P(AnyTransport, OneFrameGoesToMany) {
  open();
  std::vector<std::unique_ptr<Transport>> members;
  std::vector<Endpoint> endpoints;
  for (int i = 0; i < 9; ++i) {
    members.push_back(make_());
    endpoints.push_back(members.back()->local());
  }
  for (const size_t size : {20, 1044, 64532}) {
    const Bytes frame = pattern(7, size);
    std::vector<TxFrame> same;
    for (const Endpoint& to : endpoints) same.push_back({frame.data(), static_cast<uint32_t>(size), &to});
    EXPECT_EQ(a_->send(same.data(), same.size()), same.size());
    for (const auto& member : members) expect_same_frames(collect(*member, 1), {frame});
  }
}

TEST_P(AnyTransport, WaitTimesOut) {
  open();
  const Time begin = monotonic_now();
  b_->wait(milliseconds(30));
  const Duration slept = monotonic_now() - begin;
  EXPECT_GE(slept, milliseconds(25));
  EXPECT_LT(slept, seconds(60));
  b_->wait(nanoseconds(0));
  b_->wait(nanoseconds(-1));
}

TEST_P(AnyTransport, WaitEndsWithAFrame) {
  open();
  std::atomic<bool> over{false};
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(20));
    send_all(*a_, {pattern(1, 99)}, b_->local());
    while (!over) a_->wait(milliseconds(1));
  });
  const Time begin = monotonic_now();
  RxFrame frame;
  size_t got = 0;
  while ((got = b_->receive(&frame, 1)) == 0 && monotonic_now() - begin < seconds(60)) b_->wait(seconds(60));
  EXPECT_EQ(got, 1U);
  EXPECT_LT(monotonic_now() - begin, seconds(30));
  b_->release();
  over = true;
  sender.join();
}

TEST_P(AnyTransport, AWakeBeforeTheWaitIsNotLost) {
  open();
  for (int i = 0; i < 3; ++i) {
    b_->wake();
    b_->wake();
    const Time begin = monotonic_now();
    b_->wait(seconds(20));
    EXPECT_LT(monotonic_now() - begin, seconds(10));
  }
  // And it is used up: the next wait sleeps (one early return is allowed).
  const Time begin = monotonic_now();
  b_->wait(milliseconds(20));
  b_->wait(milliseconds(20));
  EXPECT_GE(monotonic_now() - begin, milliseconds(15));
}

TEST_P(AnyTransport, AWakeEndsAWait) {
  open();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(30));
    b_->wake();
  });
  const Time begin = monotonic_now();
  b_->wait(seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
  other.join();
}

// What arrives does not end a pause; a wake does, also one that came before.
TEST_P(AnyTransport, APauseEndsByAWakeOrInTime) {
  open();
  b_->wake();
  Time begin = monotonic_now();
  b_->pause(seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
  send_all(*a_, {pattern(1, 100)}, b_->local());
  b_->wait(seconds(20));
  begin = monotonic_now();
  b_->pause(milliseconds(30));
  b_->pause(milliseconds(30));  // one early return is allowed
  EXPECT_GE(monotonic_now() - begin, milliseconds(29));
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(30));
    b_->wake();
  });
  begin = monotonic_now();
  b_->pause(seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
  other.join();
}

// A ping-pong of wakes between two threads: one that gets lost makes a wait last to its end.
TEST_P(AnyTransport, NoWakeIsLostUnderContention) {
  open();
  constexpr int kRounds = 3000;
  constexpr Duration kLong = seconds(60);
  std::atomic<int> turn{0};
  std::atomic<bool> lost{false};
  const auto play = [&](Transport& mine, Transport& other, int parity) {
    for (int now = turn.load(); now < kRounds && !lost; now = turn.load()) {
      if (now % 2 != parity) {
        const Time begin = monotonic_now();
        mine.wait(kLong);
        if (monotonic_now() - begin >= kLong) lost = true;
        continue;
      }
      turn.store(now + 1);
      other.wake();
    }
    other.wake();
  };
  std::thread second([&] { play(*b_, *a_, 1); });
  play(*a_, *b_, 0);
  second.join();
  EXPECT_FALSE(lost);
}

TEST_P(AnyTransport, SendingToAFullQueueLosesAndDoesNotBlock) {
  open(65507, 256 << 10);
  const std::vector<Bytes> burst(32, pattern(5, 32788));
  for (int i = 0; i < 64; ++i) send_all(*a_, burst, b_->local());  // 64 MiB to a queue of 256 KiB
  size_t got = 0;
  const auto drain = [&] {
    RxFrame frames[32];
    size_t last = 0;
    for (size_t n = 0; (n = b_->receive(frames, 32)) != 0; b_->release()) {
      for (size_t i = 0; i < n; ++i) EXPECT_TRUE(frames[i].size == 32788U || frames[i].size == 500U);
      got += n;
      last = frames[n - 1].size;
    }
    return last == 500;
  };
  drain();
  // It works on: a frame is taken again, and comes behind those that were taken before.
  const Time end = monotonic_now() + seconds(60);
  while (send_all(*a_, {pattern(6, 500)}, b_->local()) == 0 && monotonic_now() < end) {
    drive();
    drain();
  }
  while (!drain() && monotonic_now() < end) drive();
  EXPECT_LT(monotonic_now(), end);
  EXPECT_GT(got, 1U);
  EXPECT_LT(got, 1024U);
}

TEST_P(AnyTransport, FramesLongerThanAllowedAreDroppedWithoutHarm) {
  open(2048);
  EXPECT_EQ(a_->limits().max_frame_bytes, 2048U);
  const std::vector<Bytes> frames = {pattern(1, 2048), pattern(2, 2049), pattern(3, 100), pattern(4, 65507),
                                     pattern(5, 2048)};
  EXPECT_EQ(send_all(*a_, frames, b_->local()), frames.size());
  expect_same_frames(collect(*b_, 3), {frames[0], frames[2], frames[4]});
  RxFrame frame;
  b_->wait(milliseconds(30));
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
}

TEST_P(AnyTransport, AllocatesZeroedAlignedMemory) {
  open();
  for (const size_t bytes : {0, 1, 64, 65, 100000}) {
    uint8_t* memory = a_->allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](uint8_t byte) { return byte == 0; }));
    std::fill(memory, memory + bytes, uint8_t{0xff});
  }
}

TEST_P(AnyTransport, AnEndpointThatIsGoneIsLostTraffic) {
  open();
  const Endpoint gone = b_->local();
  b_.reset();
  const std::vector<Bytes> frames(4, pattern(1, 300));
  send_all(*a_, frames, gone);
  const auto next = make_();
  send_all(*a_, {pattern(2, 300)}, next->local());
  expect_same_frames(collect(*next, 1), {pattern(2, 300)});
}

INSTANTIATE_TEST_SUITE_P(All, AnyTransport, ::testing::ValuesIn(kinds()),
                         [](const ::testing::TestParamInfo<Kind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace switchml
