#include "socket/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>
#include <type_traits>

namespace switchml {
namespace {

int open_one() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, NoneIsInvalidAndClosesNothing) {
  const Fd none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.get(), -1);
  EXPECT_FALSE(Fd(-1).valid());
}

TEST(Fd, ClosesWhatItOwns) {
  const int raw = open_one();
  ASSERT_GE(raw, 0);
  {
    const Fd fd(raw);
    EXPECT_TRUE(fd.valid());
    EXPECT_EQ(fd.get(), raw);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(Fd, DescriptorZeroIsOneToo) {
  const int kept = ::dup(STDIN_FILENO);  // -1 where there is no standard input
  ASSERT_EQ(::dup2(open_one(), STDIN_FILENO), STDIN_FILENO);
  {
    const Fd fd(STDIN_FILENO);
    EXPECT_TRUE(fd.valid());
  }
  EXPECT_FALSE(is_open(STDIN_FILENO));
  if (kept >= 0) {
    ASSERT_EQ(::dup2(kept, STDIN_FILENO), STDIN_FILENO);
    ::close(kept);
  }
}

TEST(Fd, MovingHandsItOn) {
  const int raw = open_one();
  std::optional<Fd> first(std::in_place, raw);
  Fd second(std::move(*first));
  EXPECT_FALSE(first->valid());
  first.reset();
  EXPECT_TRUE(is_open(raw));
  EXPECT_EQ(second.get(), raw);
}

// The old descriptor is not leaked: it lives until the one it was swapped with goes.
TEST(Fd, AssignmentLosesNone) {
  const int a = open_one();
  const int b = open_one();
  {
    Fd target(a);
    {
      Fd source(b);
      target = std::move(source);
      EXPECT_EQ(target.get(), b);
    }
    EXPECT_FALSE(is_open(a));
    EXPECT_TRUE(is_open(b));
  }
  EXPECT_FALSE(is_open(b));
}

TEST(Fd, HasOneOwner) {
  EXPECT_FALSE(std::is_copy_constructible_v<Fd>);
  EXPECT_FALSE(std::is_copy_assignable_v<Fd>);
}

}  // namespace
}  // namespace switchml
