// A process to which the system gives no more threads.
#pragma once

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <system_error>
#include <thread>

namespace switchml {

/// In a child of fork(): from now on the system gives no thread. False: it does all the same.
inline bool refuse_threads() {
  constexpr uid_t kNobody = 65534;  // root has no limit
  if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0)) return false;
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    return true;
  }
  return false;
}

constexpr int kThreadsAreGiven = 255;

/// Runs `body` in a child. It returns 0 if all is well, kThreadsAreGiven where refuse_threads() fails, or 1 to 254 to
/// say what is not as it should be.
inline void expect_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "ended by signal " << WTERMSIG(state);
  if (WEXITSTATUS(state) == kThreadsAreGiven) GTEST_SKIP() << "this system gives threads whatever the limit says";
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

}  // namespace switchml
