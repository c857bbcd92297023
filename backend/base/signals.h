// The programs end by SIGTERM or SIGINT, for which the main thread waits.
#pragma once

#include <pthread.h>

#include <csignal>

namespace switchml {

/// Blocks the two signals in this thread and those it will start, so that only sigwait() and its like see them. Call it
/// before any thread exists; returns the set to wait for.
inline sigset_t block_end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

}  // namespace switchml
