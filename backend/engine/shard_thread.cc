#include "engine/shard_thread.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/processors.h"

namespace switchml {

namespace {

/// Readable while one of them is. Invalid if there is none of either, or the system has no descriptor left.
Fd watch(int one, int other) {
  Fd both(one < 0 || other < 0 ? -1 : ::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{EPOLLIN, {}};
  for (const int fd : {one, other}) {
    if (both.valid() && ::epoll_ctl(both.get(), EPOLL_CTL_ADD, fd, &event) != 0) both = Fd();
  }
  return both;
}

}  // namespace

ShardThread::ShardThread(std::vector<std::shared_ptr<Shard>> shards, Duration spin, const std::vector<int>& processors,
                         SideWork* side_work)
    : shards_(std::move(shards)),
      busy_poll_(spin),
      callers_wait_(spin, 0),
      processors_(processors),
      lets_callers_work_(link().readable() >= 0),
      side_work_(side_work),
      both_(side_work == nullptr ? Fd() : watch(link().readable(), side_work->readable())) {
  for (const auto& shard : shards_) {
    shard->when_woken([this] {
      waker_.wake();
      notify();
    });
  }
  start();
}

ShardThread::~ShardThread() {
  stop();
  for (const auto& shard : shards_) shard->when_woken(nullptr);
}

void ShardThread::settle_in() const {
  const int index = shards_.front()->index();
  pthread_setname_np(pthread_self(), ("switchml-" + std::to_string(index)).c_str());
  if (!processors_.empty() && !run_on(processors_)) {
    SWITCHML_LOG(kWarning) << "shard " << index << ": its thread cannot run on processors "
                           << to_processor_list(processors_) << " and runs where the others of this process do";
  }
}

// Until the first one asks, the thread waits for frames though nothing is under way.
bool ShardThread::lets_callers_work() {
  if (lets_callers_work_ && !is_asked_.exchange(true)) end_wait();
  return lets_callers_work_;
}

// A shard that has moved has another link.
void ShardThread::begin_work_of_caller() {
  does_side_work_ =
      does_side_work_ || (both_.valid() && waker_.valid() && !shards_.front()->is_away() && side_work_->take());
}

void ShardThread::end_work_of_caller() {
  if (std::exchange(does_side_work_, false)) side_work_->give_back();
}

bool ShardThread::is_idle() const {
  return is_asked_.load() &&
         std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->is_idle(); });
}

bool ShardThread::has_work() const {
  return patience() <= Duration(0) ||
         std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->has_attention(); });
}

bool ShardThread::step(Time now) {
  bool moved = false;
  for (const auto& shard : shards_) moved = shard->step(now) || moved;
  return (does_side_work_ && side_work_->step()) || moved;
}

void ShardThread::step_or_wait(Time now, bool in_turn, const std::function<bool()>& over) {
  if (step(now) || over()) return;
  if (const Duration pause = in_turn ? Duration(0) : coalescing(); pause > Duration(0)) return link().pause(pause);
  const bool waits = waits_for_results();
  if (waits && side_work_ != nullptr && !in_turn) side_work_->rouse();
  IdleWait* const callers_wait = in_turn ? &callers_wait_.of_this_thread() : nullptr;
  const auto found = [this, in_turn] {
    if (in_turn) begin_work_of_caller();  // Its own thread may have let it go since.
    return step(monotonic_now());
  };
  if (waits && (in_turn ? (*callers_wait)(found, over) : busy_poll_(found, over))) return;
  if (const Duration time = patience(); time > Duration(0)) sleep(time);
  if (in_turn && waits && found()) callers_wait->slept();
}

void ShardThread::sleep(Duration time) {
  if (does_side_work_) return waker_.wait(both_.get(), time);
  link().wait(time);
}

// If there are several shards, some have nothing to gather most of the time.
Duration ShardThread::coalescing() {
  return shards_.size() == 1 ? shards_.front()->coalescing(monotonic_now()) : Duration(0);
}

bool ShardThread::waits_for_results() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->waits_for_results(); });
}

Duration ShardThread::patience() const {
  constexpr Duration kLongestWait = seconds(1);
  Time wakeup = kNever;
  for (const auto& shard : shards_) wakeup = std::min(wakeup, shard->next_wakeup());
  return wakeup == kNever ? kLongestWait : std::min<Duration>(kLongestWait, wakeup - monotonic_now());
}

}  // namespace switchml
