#include "engine/stepped_thread.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cfenv>

#include "base/thread.h"

namespace switchml {

namespace {

/// While it lives, this thread computes as IEEE 754 says by default. Flush-to-zero or another rounding, which a caller
/// may have set, would change the bits.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
#if defined(__x86_64__)
    if (rounding_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
    _mm_setcsr(kDefaultControl);
#else
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
#endif
  }
  ~DefaultArithmetic() {
#if defined(__x86_64__)
    if (rounding_ != FE_TONEAREST) std::fesetround(rounding_);
    _mm_setcsr(control_);
#else
    std::fesetenv(&before_);
#endif
  }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
#if defined(__x86_64__)  // All of the environment, of which nothing else counts here, takes 400 ns.
  static constexpr unsigned kDefaultControl = 0x1f80;
  const int rounding_ = std::fegetround();
  const unsigned control_ = _mm_getcsr();
#else
  std::fenv_t before_;
#endif
};

}  // namespace

class SteppedThread::Turn final : public CallerTurn {
 public:
  explicit Turn(SteppedThread& thread) : thread_(thread) {}
  ~Turn() override {
    if (!is_mine) return;
    thread_.end_work_of_caller();
    const std::lock_guard<std::mutex> lock(thread_.mutex_);
    thread_.taken_ = false;
    if (!thread_.is_idle()) thread_.work_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool is_mine = false;

  void work_until(const std::function<bool()>& over) override {
    const DefaultArithmetic arithmetic;
    Time now = monotonic_now();
    for (const Time end = now + kLongest; !over() && now < end; now = monotonic_now()) {
      thread_.step_or_wait(now, true, over);
    }
    // The announcement of what is over: the next turn finds nothing then.
    if (!thread_.is_idle()) thread_.step(monotonic_now());
  }

 private:
  SteppedThread& thread_;
};

void SteppedThread::start() {
  thread_ = make_thread("an engine", [this] { run(); });
}

void SteppedThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  end_wait();
  notify();
  thread_.join();
  step(monotonic_now());
}

void SteppedThread::notify() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!taken_) work_.notify_one();
}

std::unique_ptr<CallerTurn> SteppedThread::begin_turn() {
  if (!lets_callers_work()) return nullptr;
  auto turn = std::make_unique<Turn>(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (taken_ || !is_idle()) return nullptr;
  turn->is_mine = taken_ = true;
  begin_work_of_caller();
  return turn;
}

// While nothing is in progress it sleeps where only notify() wakes it: what others send is for the caller that takes a
// turn, and else is found a moment later.
void SteppedThread::run() {
  settle_in();
  std::fesetenv(FE_DFL_ENV);  // a new thread inherits its parent's
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped()) {
    if (taken_ || (is_idle() && !has_work())) {
      work_.wait_for(lock, taken_ ? kLongest : rest());
      continue;
    }
    taken_ = true;
    lock.unlock();
    do {
      step_or_wait(monotonic_now(), false, [this] { return stopped() || is_idle(); });
    } while (!stopped() && !is_idle());
    lock.lock();
    taken_ = false;
  }
}

}  // namespace switchml
