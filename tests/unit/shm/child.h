// Processes of a test. A child that does not end is killed, so that nothing hangs.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/clock.h"

namespace switchml::shm::testing {

class Child {
 public:
  /// Runs `body` in another process, which ends with what it returns. The caller must have no other thread.
  template <typename Body>
  explicit Child(const Body& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;

  /// What it returned; -1: it has been killed, or has not ended in `limit` and is killed now.
  int exit_code(Duration limit = seconds(60)) {
    const Time end = monotonic_now() + limit;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (monotonic_now() > end) return kill(), -1;
      std::this_thread::sleep_for(milliseconds(1));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace switchml::shm::testing
