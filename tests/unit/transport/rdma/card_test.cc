#include "transport/rdma/card.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <thread>

#include "fake_library.h"
#include "transport/harness.h"

namespace switchml::rdma {
namespace {

using ::testing::HasSubstr;

CardOptions on_loopback() {
  CardOptions options;
  options.local = literal_address("127.0.0.1", 7).value();
  options.wish.emulated = true;
  return options;
}

TEST(Card, IsOpenOrSaysWhichFunctionRefused) {
  const fake_verbs::Library library;
  {
    Card card(fake_verbs::Library::verbs(), on_loopback());
    ASSERT_TRUE(card.open().ok());
    EXPECT_EQ(card.port().device, "fake0");
    EXPECT_EQ(card.local(), on_loopback().local);
    EXPECT_FALSE(card.asks());
  }
  for (const char* const function : {"ibv_alloc_pd", "ibv_create_comp_channel"}) {
    Card card(fake_verbs::Library::verbs(), on_loopback());
    library.fail_once(function, EPERM);
    EXPECT_THAT(card.open().message(), HasSubstr(function));
  }
}

TEST(Card, WithRequestsIsWhereItsSocketIs) {
  const fake_verbs::Library library;
  const auto there = open_udp(on("127.0.0.1:0"));
  CardOptions options = on_loopback();
  options.asks = UdpOptions();
  options.asks->peer = there->local();
  Card card(fake_verbs::Library::verbs(), options);
  ASSERT_TRUE(card.open().ok());
  EXPECT_TRUE(card.asks());
  const Endpoint to = with_carrier(there->local(), Carrier::kPlaces);
  const Bytes words = pattern(1, 50);
  card.ask({words.data(), static_cast<uint32_t>(words.size()), &to});
  EXPECT_EQ(collect(*there, 1), std::vector<Bytes>{words});
  send_all(*there, {words}, card.local());
  const Time end = monotonic_now() + seconds(60);
  RxFrame frame;
  size_t got = card.receive_replies(&frame, 1, Carrier::kRdma);
  while (got == 0 && monotonic_now() < end) {
    card.wait(seconds(1));
    got = card.receive_replies(&frame, 1, Carrier::kRdma);
  }
  ASSERT_EQ(got, 1U);
  EXPECT_EQ(Bytes(frame.data, frame.data + frame.size), words);
  EXPECT_EQ(frame.from, with_carrier(there->local(), Carrier::kRdma));
  card.release();
}

TEST(Card, WithoutASocketRequestsAreLost) {
  const fake_verbs::Library library;
  Card card(fake_verbs::Library::verbs(), on_loopback());
  ASSERT_TRUE(card.open().ok());
  const Endpoint to = on_loopback().local;
  const Bytes words = pattern(1, 50);
  card.ask({words.data(), static_cast<uint32_t>(words.size()), &to});
  RxFrame frame;
  EXPECT_EQ(card.receive_replies(&frame, 1, Carrier::kRdma), 0U);
  EXPECT_FALSE(card.has_replies());
}

TEST(Card, AWakeFromAnotherThreadEndsAWait) {
  const fake_verbs::Library library;
  Card card(fake_verbs::Library::verbs(), on_loopback());
  ASSERT_TRUE(card.open().ok());
  std::thread other([&] { card.wake(); });
  const Time begin = monotonic_now();
  card.wait(seconds(300));
  other.join();
  std::thread again([&] { card.wake(); });
  card.pause(seconds(300));
  again.join();
  EXPECT_LT(monotonic_now() - begin, seconds(300));
}

TEST(Card, KeepsTheFirstErrorUntilItIsTaken) {
  const fake_verbs::Library library;
  Card card(fake_verbs::Library::verbs(), on_loopback());
  ASSERT_TRUE(card.open().ok());
  auto queue = card.completions(4);
  ASSERT_TRUE(queue.ok());
  library.fail_once("ibv_req_notify_cq", EPERM);
  card.arm(queue.value().get());
  card.note(card.local(), "another");
  EXPECT_EQ(card.take_error(), "127.0.0.1:7: ibv_req_notify_cq: Operation not permitted");
  EXPECT_EQ(card.take_error(), "");
}

}  // namespace
}  // namespace switchml::rdma
