#include "engine/stepped_thread.h"

#include <cfenv>

#include "base/thread.h"

namespace switchml {

namespace {

/// While it lives, this thread computes as IEEE 754 says by default. Flush-to-zero or another rounding, which a caller
/// may have set, would change the bits.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t before_;
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
    const Time end = monotonic_now() + kLongest;
    while (!over() && monotonic_now() < end) thread_.step_or_wait(true, over);
    if (!thread_.is_idle()) thread_.step();  // the announcement of what is over: the next turn finds nothing then
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
  step();
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
      step_or_wait(false, [this] { return stopped() || is_idle(); });
    } while (!stopped() && !is_idle());
    lock.lock();
    taken_ = false;
  }
}

}  // namespace switchml
