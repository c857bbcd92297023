#include "transport/inproc.h"

#include "transport/harness.h"

namespace switchml {
namespace {

TEST(Inproc, EndpointsAreDistinctAndOutliveTheHubHandle) {
  auto hub = InprocHub::create({});
  const auto a = hub->attach();
  const auto b = hub->attach();
  hub.reset();
  EXPECT_NE(a->local(), b->local());
  send_all(*a, {pattern(1, 10)}, b->local());
  EXPECT_EQ(collect(*b, 1).size(), 1U);
}

TEST(Inproc, TheQueueHoldsWhatTheOptionsSay) {
  InprocHub::Options options;
  options.queue_frames = 5;
  const auto hub = InprocHub::create(options);
  const auto a = hub->attach();
  const auto b = hub->attach();
  EXPECT_EQ(send_all(*a, std::vector<Bytes>(9, pattern(1, 10)), b->local()), 9U);
  RxFrame frames[16];
  EXPECT_EQ(b->receive(frames, 16), 5U);
  b->release();
}

TEST(Inproc, HubsAreSeparate) {
  const auto one = InprocHub::create({});
  const auto two = InprocHub::create({});
  const auto a = one->attach();
  const auto b = two->attach();
  const auto unused = one->attach();
  send_all(*a, {pattern(1, 10)}, b->local());  // on this hub that is `a` itself
  RxFrame frame;
  EXPECT_EQ(b->receive(&frame, 1), 0U);
}

TEST(Inproc, AnAddressOfAnotherKindIsLostTraffic) {
  const auto a = InprocHub::create({})->attach();
  EXPECT_EQ(send_all(*a, {pattern(1, 10)}, address("127.0.0.1:1")), 1U);
  EXPECT_EQ(send_all(*a, {pattern(1, 10)}, Endpoint{}), 1U);
}

}  // namespace
}  // namespace switchml
