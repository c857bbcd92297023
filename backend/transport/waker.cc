#include "transport/waker.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>

namespace switchml {

Waker::Waker() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void Waker::wait(int fd, Duration timeout) {
  int expected = kIdle;
  if (!state_.compare_exchange_strong(expected, kWaiting)) {
    state_.store(kIdle);  // the wake that came before: used up
    return;
  }
  timeout = std::max(timeout, Duration::zero());
  const auto whole = std::chrono::duration_cast<seconds>(timeout);
  timespec limit{};
  limit.tv_sec = whole.count();
  limit.tv_nsec = (timeout - whole).count();
  pollfd polled[2] = {{fd, POLLIN, 0}, {event_.get(), POLLIN, 0}};
  const int ready = ::ppoll(polled, 2, &limit, nullptr);
  state_.exchange(kIdle);
  // A waker may write after we left on other grounds; that makes the next wait() return early, which empties the event.
  if (ready > 0 && polled[1].revents != 0) {
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &ignored, sizeof ignored);
  }
}

void Waker::wake() {
  if (state_.exchange(kWoken) != kWaiting) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(event_.get(), &one, sizeof one);
}

}  // namespace switchml
