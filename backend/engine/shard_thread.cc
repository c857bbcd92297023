#include "engine/shard_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <string>

#include "base/log.h"
#include "base/processors.h"
#include "base/thread.h"

namespace switchml {

ShardThread::ShardThread(std::shared_ptr<Shard> shard, Duration spin, const std::vector<int>& processors)
    : shard_(std::move(shard)),
      look_around_(spin),
      processors_(processors),
      thread_(make_thread("an engine", [this] { run(); })) {}

ShardThread::~ShardThread() { stop(); }

void ShardThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  shard_->wake();
  thread_.join();
  shard_->step(monotonic_now());  // what was submitted or asked for last
}

void ShardThread::run() {
  pthread_setname_np(pthread_self(), ("switchml-" + std::to_string(shard_->index())).c_str());
  // A new thread inherits its parent's floating-point state; flush-to-zero or another rounding would change the bits.
  std::fesetenv(FE_DFL_ENV);
  if (!processors_.empty() && !run_on(processors_)) {
    SWITCHML_LOG(kWarning) << "shard " << shard_->index() << ": its thread cannot run on processors "
                           << to_processor_list(processors_) << " and runs where the others of this process do";
  }
  constexpr Duration kLongest = seconds(1);
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  const auto step = [this] { return shard_->step(monotonic_now()); };
  while (!stopped()) {
    if (step()) continue;
    if (const Duration pause = shard_->moderation(monotonic_now()); pause > Duration(0)) {
      shard_->transport().pause(pause);
      continue;
    }
    if (shard_->waits_for_results() && look_around_(step, stopped)) continue;
    const Time wakeup = shard_->next_wakeup();
    const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
    if (patience > Duration(0)) shard_->transport().wait(patience);
  }
}

}  // namespace switchml
