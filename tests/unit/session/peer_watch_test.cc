#include "session/peer_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <mutex>
#include <vector>

#include "fixture.h"
#include "session/peer_connection.h"
#include "transport/sockaddr.h"

namespace switchml {
namespace {

/// The losses that a watch tells.
struct Losses {
  std::mutex mutex;
  std::vector<std::string> texts;

  std::function<void(int, const std::string&)> recorder() {
    return [this](int, const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex);
      texts.push_back(text);
    };
  }
  std::vector<std::string> now() {
    const std::lock_guard<std::mutex> lock(mutex);
    return texts;
  }
  /// What was told within a minute, as soon as there is something.
  std::vector<std::string> soon() {
    const Time end = monotonic_now() + seconds(60);
    while (now().empty() && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(1));
    return now();
  }
};

bool comes_true(const std::function<bool()>& condition) {
  const Time end = monotonic_now() + seconds(60);
  while (!condition() && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(1));
  return condition();
}

PeerWatchOptions options_of(int rank, int size, Losses* losses) {
  PeerWatchOptions options;
  options.rank = rank;
  options.size = size;
  options.who = "host h, process " + std::to_string(100 + rank);
  options.key = 4711;
  options.patience = seconds(5);
  options.on_loss = losses->recorder();
  return options;
}

class PeerWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = PeerWatch::listen(endpoint_of("127.0.0.1:0"));
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    listener = std::move(made.value());
    address = local_endpoint(listener.get());
  }
  /// Another process that is `rank`, with a grandchild that outlives it; it does nothing but be there.
  pid_t process(int rank, int size) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    Losses losses;
    const PeerWatch watch(options_of(rank, size, &losses), address);
    comes_true([&] { return watch.connected() == 1; });
    if (::fork() == 0) {
      ::sleep(3);
      ::_exit(0);
    }
    while (true) ::pause();
  }
  Fd listener;
  Endpoint address;
  Losses zero, one, two;
};

TEST_F(PeerWatchTest, AKilledProcessIsTold) {
  const pid_t victim = process(2, 3);
  PeerWatch center(options_of(0, 3, &zero), std::move(listener));
  PeerWatch point(options_of(1, 3, &one), address);
  ASSERT_TRUE(comes_true([&] { return center.connected() == 2; }));
  std::this_thread::sleep_for(milliseconds(100));  // for the grandchild
  ::kill(victim, SIGKILL);
  const std::vector<std::string> said = {
      "rank 2 (host h, process 102) is gone: its process has ended without leaving the group"};
  EXPECT_EQ(zero.soon(), said);
  EXPECT_EQ(one.soon(), said);
  EXPECT_EQ(::waitpid(victim, nullptr, 0), victim);
}

TEST_F(PeerWatchTest, AStoppedProcessIsNotTold) {
  const pid_t victim = process(1, 2);
  PeerWatch center(options_of(0, 2, &zero), std::move(listener));
  ASSERT_TRUE(comes_true([&] { return center.connected() == 1; }));
  ::kill(victim, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_TRUE(zero.now().empty());
  ::kill(victim, SIGKILL);
  EXPECT_EQ(zero.soon().size(), 1U);
  EXPECT_EQ(::waitpid(victim, nullptr, 0), victim);
}

TEST_F(PeerWatchTest, TheDeathOfRankZeroIsTold) {
  const pid_t victim = ::fork();
  if (victim == 0) {
    Losses losses;
    const PeerWatch center(options_of(0, 3, &losses), std::move(listener));
    while (true) ::pause();
  }
  listener = Fd();
  PeerWatch first(options_of(1, 3, &one), address);
  PeerWatch second(options_of(2, 3, &two), address);
  ASSERT_TRUE(comes_true([&] { return first.connected() == 1 && second.connected() == 1; }));
  std::this_thread::sleep_for(milliseconds(100));
  ::kill(victim, SIGKILL);
  const std::vector<std::string> said = {"rank 0 is gone: its process has ended without leaving the group"};
  EXPECT_EQ(one.soon(), said);
  EXPECT_EQ(two.soon(), said);
  EXPECT_EQ(::waitpid(victim, nullptr, 0), victim);
}

TEST_F(PeerWatchTest, WhoLeavesInAnyOrderIsNotTold) {
  for (const bool center_first : {true, false}) {
    auto socket = PeerWatch::listen(endpoint_of("127.0.0.1:0"));
    ASSERT_TRUE(socket.ok());
    const Endpoint at = local_endpoint(socket->get());
    auto center = std::make_unique<PeerWatch>(options_of(0, 3, &zero), std::move(socket.value()));
    auto first = std::make_unique<PeerWatch>(options_of(1, 3, &one), at);
    auto second = std::make_unique<PeerWatch>(options_of(2, 3, &two), at);
    ASSERT_TRUE(comes_true([&] { return center->connected() == 2; }));
    if (center_first) center.reset();
    first.reset();
    std::this_thread::sleep_for(milliseconds(50));
    second.reset();
    center.reset();
  }
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

// The kernel connects whom rank 0 will never look at. Without its greeting nobody can tell whether it has left.
TEST_F(PeerWatchTest, WhoComesWhileRankZeroLeavesIsNotTold) {
  for (int round = 0; round < 20; ++round) {
    auto socket = PeerWatch::listen(endpoint_of("127.0.0.1:0"));
    ASSERT_TRUE(socket.ok());
    const Endpoint at = local_endpoint(socket->get());
    const PeerWatch first(options_of(1, 3, &one), at);
    const PeerWatch second(options_of(2, 3, &two), at);
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(first.connected(), 0);
    if (round % 2 == 0) {
      socket.value() = Fd();
    } else {
      std::make_unique<PeerWatch>(options_of(0, 3, &zero), std::move(socket.value())).reset();
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

TEST_F(PeerWatchTest, AStrangerIsNobody) {
  PeerWatch center(options_of(0, 3, &zero), std::move(listener));
  PeerWatchOptions wrong = options_of(2, 3, &two);
  wrong.key = 4712;
  {
    PeerWatch stranger(wrong, address);
    PeerWatchOptions beyond = options_of(3, 4, &one);  // a rank that the group does not have
    PeerWatch other(beyond, address);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(stranger.connected(), 0) << "turned away";
    EXPECT_EQ(other.connected(), 0) << "turned away";
  }
  EXPECT_EQ(center.connected(), 0);
  PeerWatch right(options_of(2, 3, &two), address);
  EXPECT_TRUE(comes_true([&] { return center.connected() == 1; }));
  PeerWatch again(options_of(2, 3, &two), address);  // the rank is taken
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(center.connected(), 1);
  EXPECT_TRUE(comes_true([&] { return right.connected() == 1; }));
  EXPECT_EQ(again.connected(), 0);
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

TEST_F(PeerWatchTest, WhereNobodyListensNothingIsWatched) {
  PeerWatchOptions options = options_of(1, 2, &one);
  options.warn_unheard = false;
  const PeerWatch watch(options, closed_port());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(watch.connected(), 0);
  EXPECT_TRUE(one.now().empty());
}

TEST_F(PeerWatchTest, AForkedChildSaysNoFarewell) {
  PeerWatch center(options_of(0, 2, &zero), std::move(listener));
  auto watch = std::make_unique<PeerWatch>(options_of(1, 2, &one), address);
  ASSERT_TRUE(comes_true([&] { return center.connected() == 1; }));
  const pid_t child = ::fork();
  if (child == 0) {
    watch.reset();
    ::_exit(7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(center.connected(), 1);
  EXPECT_TRUE(zero.now().empty() && one.now().empty());
}

}  // namespace
}  // namespace switchml
