#include "watch/peer_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/random.h"
#include "client/switches.h"
#include "no_descriptors.h"
#include "socket/sockaddr.h"
#include "watch/peer_connection.h"

namespace switchml {
namespace {

/// The losses that a watch tells.
struct Losses {
  std::mutex mutex;
  std::vector<std::string> texts;
  std::vector<int> gone;

  std::function<void(int, const std::string&, bool)> recorder() {
    return [this](int rank, const std::string& text, bool is_gone) {
      const std::lock_guard<std::mutex> lock(mutex);
      texts.push_back(text);
      if (is_gone) gone.push_back(rank);
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
  options.process = "host h, process " + std::to_string(100 + rank);
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
    const PeerWatch watch(options_of(rank, size, &losses), address, door->door());
    comes_true([&] { return watch.connected() == 1; });
    if (::fork() == 0) {
      ::sleep(3);
      ::_exit(0);
    }
    while (true) ::pause();
  }
  const std::shared_ptr<const seal::StreamDoorOwner> door =
      std::make_shared<const seal::StreamDoorOwner>(random_seal_key(), random_bytes);
  Fd listener;
  Endpoint address;
  Losses zero, one, two;
};

TEST_F(PeerWatchTest, WhoGivesUpIsTakenForLostOnce) {
  for (const int victim : {0, 2}) {
    SetUp();
    PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
    PeerWatch client(options_of(1, 3, &one), address, door->door());
    auto other = std::make_unique<PeerWatch>(options_of(2, 3, &two), address, door->door());
    ASSERT_TRUE(
        comes_true([&] { return server.connected() == 2 && client.connected() == 1 && other->connected() == 1; }));
    const std::string text = "rank " + std::to_string(victim) + " gave up";
    (victim == 0 ? server : *other).give_up(text);
    if (victim == 2) other.reset();  // its farewell, or end, is no second loss
    for (Losses* losses : {victim == 0 ? &two : &zero, &one}) {
      EXPECT_EQ(losses->soon(), std::vector<std::string>{text});
      EXPECT_TRUE(losses->gone.empty()) << "its process lives";
      losses->texts.clear();
    }
  }
}

TEST_F(PeerWatchTest, ALossIsHeardByThoseWhoComeLater) {
  PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
  server.give_up("rank 0 gave up");
  PeerWatch client(options_of(1, 3, &one), address, door->door());
  EXPECT_EQ(one.soon(), std::vector<std::string>{"rank 0 gave up"});
  client.give_up("rank 1 gave up");
  ASSERT_EQ(zero.soon(), std::vector<std::string>{"rank 1 gave up"});
  const PeerWatch late(options_of(2, 3, &two), address, door->door());
  EXPECT_TRUE(comes_true([&] { return two.now() == std::vector<std::string>{"rank 0 gave up", "rank 1 gave up"}; }));
}

TEST_F(PeerWatchTest, WhatIsSaidLastIsHeard) {
  PeerWatch client(options_of(1, 2, &one), address, door->door());
  {
    PeerWatch server(options_of(0, 2, &zero), std::move(listener), door);
    ASSERT_TRUE(comes_true([&] { return server.connected() == 1 && client.connected() == 1; }));
    server.give_up("rank 0 gave up");
  }
  EXPECT_EQ(one.soon(), std::vector<std::string>{"rank 0 gave up"});
}

TEST_F(PeerWatchTest, AKilledProcessIsTold) {
  const pid_t victim = process(2, 3);
  PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
  PeerWatch client(options_of(1, 3, &one), address, door->door());
  ASSERT_TRUE(comes_true([&] { return server.connected() == 2; }));
  std::this_thread::sleep_for(milliseconds(100));  // for the grandchild
  ::kill(victim, SIGKILL);
  const std::vector<std::string> said = {
      "rank 2 (host h, process 102) is gone: its process has ended without leaving the group"};
  EXPECT_EQ(zero.soon(), said);
  EXPECT_EQ(one.soon(), said);
  for (const Losses* losses : {&zero, &one}) EXPECT_EQ(losses->gone, std::vector<int>{2});
  EXPECT_EQ(::waitpid(victim, nullptr, 0), victim);
}

TEST_F(PeerWatchTest, AStoppedProcessIsNotTold) {
  const pid_t victim = process(1, 2);
  PeerWatch server(options_of(0, 2, &zero), std::move(listener), door);
  ASSERT_TRUE(comes_true([&] { return server.connected() == 1; }));
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
    const PeerWatch server(options_of(0, 3, &losses), std::move(listener), door);
    while (true) ::pause();
  }
  listener = Fd();
  PeerWatch first(options_of(1, 3, &one), address, door->door());
  PeerWatch second(options_of(2, 3, &two), address, door->door());
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
    auto server = std::make_unique<PeerWatch>(options_of(0, 3, &zero), std::move(socket.value()), door);
    auto first = std::make_unique<PeerWatch>(options_of(1, 3, &one), at, door->door());
    auto second = std::make_unique<PeerWatch>(options_of(2, 3, &two), at, door->door());
    ASSERT_TRUE(comes_true([&] { return server->connected() == 2; }));
    if (center_first) server.reset();
    first.reset();
    std::this_thread::sleep_for(milliseconds(50));
    second.reset();
    server.reset();
  }
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

// The kernel connects whom rank 0 will never look at. Without its greeting nobody can tell whether it has left.
TEST_F(PeerWatchTest, WhoComesWhileRankZeroLeavesIsNotTold) {
  for (int round = 0; round < 20; ++round) {
    auto socket = PeerWatch::listen(endpoint_of("127.0.0.1:0"));
    ASSERT_TRUE(socket.ok());
    const Endpoint at = local_endpoint(socket->get());
    const PeerWatch first(options_of(1, 3, &one), at, door->door());
    const PeerWatch second(options_of(2, 3, &two), at, door->door());
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(first.connected(), 0);
    if (round % 2 == 0) {
      socket.value() = Fd();
    } else {
      std::make_unique<PeerWatch>(options_of(0, 3, &zero), std::move(socket.value()), door).reset();
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

TEST_F(PeerWatchTest, AStrangerIsNobody) {
  PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
  {
    const seal::StreamDoorOwner other_door(random_seal_key(), random_bytes);
    PeerWatch stranger(options_of(2, 3, &two), address, other_door.door());
    PeerWatchOptions beyond = options_of(3, 4, &one);  // a rank that the group does not have
    PeerWatch other(beyond, address, door->door());
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(stranger.connected(), 0) << "turned away";
    EXPECT_EQ(other.connected(), 0) << "turned away";
  }
  EXPECT_EQ(server.connected(), 0);
  PeerWatch right(options_of(2, 3, &two), address, door->door());
  EXPECT_TRUE(comes_true([&] { return server.connected() == 1; }));
  PeerWatch again(options_of(2, 3, &two), address, door->door());  // the rank is taken
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(server.connected(), 1);
  EXPECT_TRUE(comes_true([&] { return right.connected() == 1; }));
  EXPECT_EQ(again.connected(), 0);
  EXPECT_TRUE(zero.now().empty() && one.now().empty() && two.now().empty());
}

// [SEAL-31]
TEST_F(PeerWatchTest, ARankIsTakenOnceThoughItHasLeft) {
  PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
  {
    PeerWatch rank(options_of(1, 3, &one), address, door->door());
    ASSERT_TRUE(comes_true([&] { return server.connected() == 1 && rank.connected() == 1; }));
  }
  ASSERT_TRUE(comes_true([&] { return server.connected() == 0; }));
  PeerWatch again(options_of(1, 3, &one), address, door->door());
  PeerWatch other(options_of(2, 3, &two), address, door->door());
  ASSERT_TRUE(comes_true([&] { return other.connected() == 1; }));
  EXPECT_EQ(again.connected(), 0);
  EXPECT_EQ(server.connected(), 1);
}

// What repeats the first bytes of a rank's connection has its keys at the door. [SEAL-34]
TEST_F(PeerWatchTest, WhoHasNotGreetedHearsNoFarewell) {
  const auto answer = seal::answer_door(door->door(), random_bytes);
  ASSERT_TRUE(answer);
  const Fd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    PeerWatch server(options_of(0, 2, &zero), std::move(listener), door);
    ASSERT_EQ(::connect(stranger.get(), as_sockaddr(address), address.size), 0);
    ASSERT_EQ(::send(stranger.get(), answer->frame.data(), answer->frame.size(), 0),
              static_cast<ssize_t>(answer->frame.size()));
    const PeerWatch rank(options_of(1, 2, &one), address, door->door());  // comes after it
    ASSERT_TRUE(comes_true([&] { return rank.connected() == 1; }));
  }
  char byte = 0;
  EXPECT_EQ(::recv(stranger.get(), &byte, 1, 0), 0) << "it was closed without a word";
}

TEST_F(PeerWatchTest, WhoSpeaksBeforeItHasGreetedIsTurnedAway) {
  PeerWatch server(options_of(0, 3, &zero), std::move(listener), door);
  const Fd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(stranger.get(), as_sockaddr(address), address.size), 0);
  const char farewell[] = {'F', 0, 0};
  char byte = 0;
  ssize_t got = -1;
  EXPECT_TRUE(comes_true([&] {  // and does not go on for as long as it speaks
    ::send(stranger.get(), farewell, sizeof farewell, MSG_NOSIGNAL);
    got = ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }));
  EXPECT_TRUE(zero.now().empty());
}

/// Strangers that hold `count` connections and make new ones in the place of those that are closed, until the end.
class Flood {
 public:
  Flood(const Endpoint& at, size_t count) : at_(at), thread_([this, count] { run(count); }) {}
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  /// Connections that were made so far.
  size_t made() const { return made_; }

 private:
  void run(size_t count) {
    std::vector<Fd> sockets(count);
    while (!stop_) {
      for (Fd& socket : sockets) {
        char byte = 0;
        const ssize_t got = socket.valid() ? ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) : 0;
        if (got < 0 && errno == EAGAIN) continue;
        socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(socket.get(), as_sockaddr(at_), at_.size) == 0) ++made_;
      }
    }
  }

  const Endpoint at_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> made_{0};
  std::thread thread_;
};

// Several times as many as rank 0 keeps.
TEST_F(PeerWatchTest, AFloodOfStrangersKeepsNobodyOut) {
  constexpr int kSize = 4;
  PeerWatch server(options_of(0, kSize, &zero), std::move(listener), door);
  const Flood first(address, 60), second(address, 60);
  ASSERT_TRUE(comes_true([&] { return first.made() > 120 && second.made() > 120; }));
  std::vector<std::unique_ptr<PeerWatch>> ranks;
  for (int rank = 1; rank < kSize; ++rank) {
    ranks.push_back(std::make_unique<PeerWatch>(options_of(rank, kSize, &one), address, door->door()));
  }
  const Time end = monotonic_now() + seconds(60);
  const auto all_in = [&] {
    return server.connected() == kSize - 1 &&
           std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->connected() == 1; });
  };
  while (!all_in() && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(all_in()) << server.connected();
  EXPECT_TRUE(zero.now().empty() && one.now().empty());
}

Duration processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// The listener stays readable: who waited for it to become quiet would turn round and round.
TEST_F(PeerWatchTest, WithoutDescriptorsItRestsAndGoesOnLater) {
  PeerWatch server(options_of(0, 2, &zero), std::move(listener), door);
  const Fd stranger = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const NoDescriptors none;
    ASSERT_EQ(::connect(stranger.get(), as_sockaddr(address), address.size), 0);
    const Duration before = processor_time();
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_LT(processor_time() - before, milliseconds(250));
  }
  const PeerWatch rank(options_of(1, 2, &one), address, door->door());
  EXPECT_TRUE(comes_true([&] { return server.connected() == 1 && rank.connected() == 1; }));
}

// A watch that could not be woken could not be ended either.
TEST_F(PeerWatchTest, WithoutADescriptorThereIsNone) {
  const NoDescriptors none;
  EXPECT_THROW(PeerWatch(options_of(1, 2, &one), address, door->door()), StatusError);
  EXPECT_THROW(PeerWatch(options_of(0, 2, &zero), std::move(listener), door), StatusError);
}

// Rank 0 lets a rank go that it has not greeted: it comes again, with what it had to tell.
TEST_F(PeerWatchTest, WhoHadToGiveWayComesAgain) {
  PeerWatch rank(options_of(1, 3, &one), address, door->door());
  rank.tell("hear me");
  {
    const Time end = monotonic_now() + seconds(20);
    Fd dropped;
    while (!dropped.valid() && monotonic_now() < end) dropped = Fd(::accept4(listener.get(), nullptr, nullptr, 0));
    ASSERT_TRUE(dropped.valid());
    ByteStream stream(std::move(dropped), door.get());
    char bytes[300];
    std::string said;  // all of it, so that the news was told to nobody
    while (said.find("hear me") == std::string::npos) {
      const ssize_t got = stream.receive(bytes, sizeof bytes);
      ASSERT_TRUE(got > 0 || (got < 0 && errno == EAGAIN && monotonic_now() < end));
      said.append(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }
  }
  std::mutex mutex;
  std::vector<std::string> news;
  PeerWatchOptions options = options_of(0, 3, &zero);
  options.on_news = [&](int from, const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    news.push_back(std::to_string(from) + " " + text);
  };
  PeerWatch server(options, std::move(listener), door);
  EXPECT_TRUE(comes_true([&] { return server.connected() == 1 && rank.connected() == 1; }));
  EXPECT_TRUE(comes_true([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return news == std::vector<std::string>{"1 hear me"};
  }));
  EXPECT_TRUE(zero.now().empty() && one.now().empty());
}

TEST_F(PeerWatchTest, WhoComesAfterTheDeathOfRankZeroIsTold) {
  PeerWatchOptions options = options_of(1, 2, &one);
  options.rank_0_left = [] { return false; };
  const PeerWatch watch(options, closed_port(), door->door());
  EXPECT_EQ(one.soon(), std::vector<std::string>{"rank 0 is gone: its process has ended without leaving the group"});
}

TEST_F(PeerWatchTest, WhereNobodyListensNothingIsWatched) {
  PeerWatchOptions options = options_of(1, 2, &one);
  options.warn_unheard = false;
  const PeerWatch watch(options, closed_port(), door->door());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(watch.connected(), 0);
  EXPECT_TRUE(one.now().empty());
}

TEST_F(PeerWatchTest, AForkedChildSaysNoFarewell) {
  PeerWatch server(options_of(0, 2, &zero), std::move(listener), door);
  auto watch = std::make_unique<PeerWatch>(options_of(1, 2, &one), address, door->door());
  ASSERT_TRUE(comes_true([&] { return server.connected() == 1; }));
  const pid_t child = ::fork();
  if (child == 0) {
    watch.reset();
    ::_exit(7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(server.connected(), 1);
  EXPECT_TRUE(zero.now().empty() && one.now().empty());
}

}  // namespace
}  // namespace switchml
