#include "shm/local_rank_thread.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cfenv>
#include <utility>

#include "base/thread.h"

namespace switchml::shm {

namespace {

constexpr Duration kLongest = milliseconds(500);
/// Where ranks share processors, the one that is waited for may want this one: to let it run costs less than to be
/// woken by it. In the middle of a large tensor few times, or ranks would take turns of few chunks. A caller has
/// nothing else to do.
constexpr int kYields = 2;
constexpr int kCallersYields = 20;

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

class LocalRankThread::Turn final : public CallerTurn {
 public:
  explicit Turn(LocalRankThread& thread) : thread_(thread) {}
  ~Turn() override {
    if (!is_mine) return;
    const std::lock_guard<std::mutex> lock(thread_.mutex_);
    thread_.taken_ = false;
    if (!thread_.is_idle()) thread_.work_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool is_mine = false;

  void work_until(const std::function<bool()>& over) override {
    const DefaultArithmetic arithmetic;
    IdleWait& wait = thread_.callers_wait_.of_this_thread();
    Time now = monotonic_now();
    for (const Time end = now + kLongest; !over() && now < end; now = monotonic_now()) {
      thread_.step_or_wait(now, wait, false, over);
    }
    if (!thread_.is_idle())
      thread_.step(monotonic_now());  // the announcement of what is over: the next turn finds nothing then
  }

 private:
  LocalRankThread& thread_;
};

LocalRankThread::LocalRankThread(std::vector<LocalRank*> local_ranks, Duration spin)
    : local_ranks_(std::move(local_ranks)),
      threads_wait_(spin, kYields),
      callers_wait_(spin, kCallersYields),
      thread_(make_thread("an engine", [this] { run(); })) {}

LocalRankThread::~LocalRankThread() {
  stop_.store(true, std::memory_order_release);
  local_ranks_.front()->wake();
  notify();
  thread_.join();
}

void LocalRankThread::notify() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!taken_) work_.notify_one();
}

std::unique_ptr<CallerTurn> LocalRankThread::begin_turn() {
  auto turn = std::make_unique<Turn>(*this);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (taken_ || !is_idle()) return nullptr;
  turn->is_mine = taken_ = true;
  return turn;
}

// Precondition: no other thread steps.
bool LocalRankThread::is_idle() const {
  return std::all_of(local_ranks_.begin(), local_ranks_.end(), [](const LocalRank* one) { return one->is_idle(); });
}
bool LocalRankThread::has_work() const {
  return std::any_of(local_ranks_.begin(), local_ranks_.end(), [](const LocalRank* one) { return one->has_work(); });
}

// While nothing is in progress it sleeps where no other rank wakes it: the doorbells are for the caller that takes a
// turn. That the board has failed it finds out a moment later.
void LocalRankThread::run() {
  pthread_setname_np(pthread_self(), "switchml-shm");
  std::fesetenv(FE_DFL_ENV);  // a new thread inherits its parent's
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped()) {
    if (taken_ || (is_idle() && !has_work())) {
      work_.wait_for(lock, kLongest);
      continue;
    }
    taken_ = true;
    lock.unlock();
    do {
      step_or_wait(monotonic_now(), threads_wait_, true, [&] { return stopped() || is_idle(); });
    } while (!stopped() && !is_idle());
    lock.lock();
    taken_ = false;
  }
  lock.unlock();
  step(monotonic_now());  // takes what was submitted or asked for last
}

template <typename Over>
void LocalRankThread::step_or_wait(Time now, IdleWait& wait, bool yields_only_amid, const Over& over) {
  if (step(now) || over()) return;
  const auto any = [this](const auto& says) { return std::any_of(local_ranks_.begin(), local_ranks_.end(), says); };
  const bool waiting = any([](const LocalRank* one) { return one->waits_for_others(); });
  const bool may_yield = !yields_only_amid || any([](const LocalRank* one) { return one->has_full_window(); });
  if (waiting && wait([this] { return has_work(); }, over, may_yield)) return;
  Time wakeup = kNever;
  for (const LocalRank* local_rank : local_ranks_) wakeup = std::min(wakeup, local_rank->next_wakeup());
  const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
  if (patience > Duration(0)) LocalRank::sleep(local_ranks_, patience);
  if (waiting && has_work()) wait.slept();
}

bool LocalRankThread::step(Time now) {
  bool moved = false;
  for (LocalRank* local_rank : local_ranks_) moved = local_rank->step(now) || moved;
  return moved;
}

}  // namespace switchml::shm
