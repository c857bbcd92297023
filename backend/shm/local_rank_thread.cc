#include "shm/local_rank_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace switchml::shm {

namespace {

/// Where ranks share processors, the one that is waited for may want this one: to let it run costs less than to be
/// woken by it. In the middle of a large tensor few times, or ranks would take turns of few chunks. A caller has
/// nothing else to do.
constexpr int kYields = 2;
constexpr int kCallersYields = 20;

}  // namespace

LocalRankThread::LocalRankThread(std::vector<LocalRank*> local_ranks, Duration spin)
    : local_ranks_(std::move(local_ranks)), threads_wait_(spin, kYields), callers_wait_(spin, kCallersYields) {
  start();
}

LocalRankThread::~LocalRankThread() { stop(); }

// The doorbells are for the caller that takes a turn. That the board has failed the thread finds out a moment later.
void LocalRankThread::settle_in() const { pthread_setname_np(pthread_self(), "switchml-shm"); }

bool LocalRankThread::is_idle() const {
  return std::all_of(local_ranks_.begin(), local_ranks_.end(), [](const LocalRank* one) { return one->is_idle(); });
}
bool LocalRankThread::has_work() const {
  return std::any_of(local_ranks_.begin(), local_ranks_.end(), [](const LocalRank* one) { return one->has_work(); });
}

void LocalRankThread::step_or_wait(Time now, bool in_turn, const std::function<bool()>& over) {
  if (step(now) || over()) return;
  IdleWait& wait = in_turn ? callers_wait_.of_this_thread() : threads_wait_;
  const auto any = [this](const auto& says) { return std::any_of(local_ranks_.begin(), local_ranks_.end(), says); };
  const bool waiting = any([](const LocalRank* one) { return one->waits_for_others(); });
  const bool may_yield = in_turn || any([](const LocalRank* one) { return one->has_full_window(); });
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
