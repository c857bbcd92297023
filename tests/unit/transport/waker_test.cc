#include "transport/waker.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <thread>

namespace switchml {
namespace {

TEST(Waker, WaitsForItsDescriptor) {
  const Fd event(::eventfd(1, EFD_NONBLOCK));  // readable at once
  Waker waker;
  ASSERT_TRUE(waker.valid());
  const Time begin = monotonic_now();
  waker.wait(event.get(), seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
}

TEST(Waker, KeepsTimeInNanoseconds) {
  const Fd event(::eventfd(0, EFD_NONBLOCK));
  Waker waker;
  const Time begin = monotonic_now();
  waker.wait(event.get(), microseconds(1500));
  EXPECT_GE(monotonic_now() - begin, microseconds(1500));
  waker.wait(event.get(), Duration::min());
  EXPECT_LT(monotonic_now() - begin, seconds(5));
}

TEST(Waker, AnEndlessWaitEndsWithAWake) {
  const Fd event(::eventfd(0, EFD_NONBLOCK));
  Waker waker;
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    waker.wake();
  });
  waker.wait(event.get(), Duration::max());
  other.join();
}

TEST(Waker, ManyWakesAreOne) {
  const Fd event(::eventfd(0, EFD_NONBLOCK));
  Waker waker;
  for (int i = 0; i < 1000; ++i) waker.wake();
  const Time begin = monotonic_now();
  waker.wait(event.get(), seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
  waker.wait(event.get(), milliseconds(20));
  EXPECT_GE(monotonic_now() - begin, milliseconds(20));
}

}  // namespace
}  // namespace switchml
