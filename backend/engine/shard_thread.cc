#include "engine/shard_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <string>

namespace switchml {

ShardThread::ShardThread(std::unique_ptr<Shard> shard) : shard_(std::move(shard)), thread_([this] { run(); }) {}

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
  constexpr Duration kLongest = seconds(1);
  while (!stop_.load(std::memory_order_acquire)) {
    const Time now = monotonic_now();
    if (shard_->step(now)) continue;
    const Time wakeup = shard_->next_wakeup();
    const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
    if (patience > Duration(0)) shard_->transport().wait(patience);
  }
}

}  // namespace switchml
