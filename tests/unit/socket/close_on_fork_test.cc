#include "socket/close_on_fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace switchml {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

/// Whether a child that is forked now has it.
bool child_has(int fd) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_open(fd) ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 1;
}

TEST(CloseOnFork, TheChildHasItNotTheParentStillHas) {
  const int guarded = ::open("/dev/null", O_RDONLY);
  const int other = ::open("/dev/null", O_RDONLY);
  close_on_fork(guarded);
  EXPECT_FALSE(child_has(guarded));
  EXPECT_TRUE(child_has(other));
  EXPECT_TRUE(is_open(guarded));
  close_forgotten(guarded);
  EXPECT_FALSE(is_open(guarded));
  ::close(other);
}

TEST(CloseOnFork, ANumberThatWasClosedIsFreeForOthers) {
  const int guarded = ::open("/dev/null", O_RDONLY);
  close_on_fork(guarded);
  close_forgotten(guarded);
  const int next = ::open("/dev/null", O_RDONLY);
  ASSERT_EQ(next, guarded) << "the kernel gives the lowest free number";
  EXPECT_TRUE(child_has(next));
  ::close(next);
}

}  // namespace
}  // namespace switchml
