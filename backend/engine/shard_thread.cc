#include "engine/shard_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <string>

#include "base/log.h"
#include "base/processors.h"
#include "base/thread.h"

namespace switchml {

ShardThread::ShardThread(std::vector<std::shared_ptr<Shard>> shards, Duration spin, const std::vector<int>& processors)
    : shards_(std::move(shards)),
      busy_poll_(spin),
      processors_(processors),
      thread_(make_thread("an engine", [this] { run(); })) {}

ShardThread::~ShardThread() { stop(); }

void ShardThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  shards_.front()->wake();
  thread_.join();
  step();  // The last submissions and requests are taken.
}

bool ShardThread::step() {
  bool moved = false;
  for (const auto& shard : shards_) moved = shard->step(monotonic_now()) || moved;
  return moved;
}

// If there are several shards, some have nothing to gather most of the time.
Duration ShardThread::coalescing() {
  return shards_.size() == 1 ? shards_.front()->coalescing(monotonic_now()) : Duration(0);
}

bool ShardThread::waits_for_results() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& shard) { return shard->waits_for_results(); });
}

Duration ShardThread::patience() const {
  constexpr Duration kLongest = seconds(1);
  Time wakeup = kNever;
  for (const auto& shard : shards_) wakeup = std::min(wakeup, shard->next_wakeup());
  return wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
}

void ShardThread::settle_in() const {
  const int index = shards_.front()->index();
  pthread_setname_np(pthread_self(), ("switchml-" + std::to_string(index)).c_str());
  // A new thread inherits its parent's floating-point state; flush-to-zero or another rounding would change the bits.
  std::fesetenv(FE_DFL_ENV);
  if (!processors_.empty() && !run_on(processors_)) {
    SWITCHML_LOG(kWarning) << "shard " << index << ": its thread cannot run on processors "
                           << to_processor_list(processors_) << " and runs where the others of this process do";
  }
}

void ShardThread::run() {
  settle_in();
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  while (!stopped()) {
    if (step()) continue;
    if (const Duration pause = coalescing(); pause > Duration(0)) {
      link().pause(pause);
      continue;
    }
    if (waits_for_results() && busy_poll_([this] { return step(); }, stopped)) continue;
    if (const Duration time = patience(); time > Duration(0)) link().wait(time);
  }
}

}  // namespace switchml
