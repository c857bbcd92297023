#include "socket/close_on_fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace switchml {

namespace {

struct Descriptors {
  std::mutex mutex;
  std::set<int> open;
};

// Outlives static destructors: a fork may come at any time.
Descriptors& descriptors() {
  static Descriptors* const instance = new Descriptors;
  return *instance;
}

std::atomic<unsigned> generation{0};

void before_fork() { descriptors().mutex.lock(); }
void in_parent() { descriptors().mutex.unlock(); }
void in_child() {
  ++generation;
  for (const int fd : descriptors().open) ::close(fd);
  descriptors().open.clear();
  descriptors().mutex.unlock();
}

void watch_forks() {
  static std::once_flag registered;
  std::call_once(registered, [] { pthread_atfork(before_fork, in_parent, in_child); });
}

}  // namespace

void close_on_fork(int fd) {
  watch_forks();
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  descriptors().open.insert(fd);
}

void keep_on_fork(int fd) {
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  descriptors().open.erase(fd);
}

unsigned fork_generation() {
  watch_forks();
  return generation.load();
}

void close_forgotten(int fd) {
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  descriptors().open.erase(fd);
  ::close(fd);
}

}  // namespace switchml
