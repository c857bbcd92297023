// Whom a guarded listener lets in, and who has to go for it.
#include "transport/guarded_listener.h"

#include <sys/resource.h>

#include <deque>
#include <mutex>

#include "no_descriptors.h"
#include "transport/tcp_harness.h"

namespace switchml {
namespace {

/// A server that does nothing with connections but hold them.
class Guarded {
 public:
  explicit Guarded(ConnectionLimits limits, Duration patience = seconds(600)) {
    auto listener = GuardedListener::open("127.0.0.1:0", "--listen");
    EXPECT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(listener.value());
    const auto take = [this](Fd connection) {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_.push_back(std::move(connection));
    };
    listener_->start("a test", limits, take, patience);
  }
  Endpoint at() const { return listener_->local(); }
  GuardedListener& listener() { return *listener_; }
  size_t taken() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
  }
  /// The n-th that was taken is over for who serves it: it hears of the end, or ends it itself.
  bool is_over(size_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint8_t byte = 0;
    return ::recv(held_[n].get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  void end(size_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ::shutdown(held_[n].get(), SHUT_RDWR);
  }

 private:
  std::mutex mutex_;
  std::deque<Fd> held_;
  std::unique_ptr<GuardedListener> listener_;  // last: its thread uses the others
};

bool comes_true(const std::function<bool()>& condition) {
  const Time end = monotonic_now() + seconds(60);
  while (!condition() && monotonic_now() < end) ::usleep(1000);
  return condition();
}

/// Connected from an address of this host, and taken.
RawTcp guest(Guarded& at, const std::string& host = "127.0.0.1") {
  const size_t before = at.taken();
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Endpoint source = address(host + ":0"), to = at.at();
  EXPECT_EQ(::bind(fd.get(), as_sockaddr(source), source.size), 0);
  EXPECT_EQ(::connect(fd.get(), as_sockaddr(to), to.size), 0);
  EXPECT_TRUE(comes_true([&] { return at.taken() == before + 1; }));
  return RawTcp(std::move(fd));
}

TEST(GuardedListener, TheOneFromAnAddressThatIsSilentLongestMakesRoomForAnother) {
  Guarded server({100, 3});
  RawTcp other = guest(server, "127.0.0.2");
  std::deque<RawTcp> guests;
  for (int i = 0; i < 3; ++i) guests.push_back(guest(server));
  ASSERT_TRUE(guests[0].send({1}));
  // The thread has heard of it once it has accepted somebody who came later.
  const RawTcp later = guest(server, "127.0.0.3");
  guests.push_back(guest(server));
  EXPECT_TRUE(guests[1].readable(60000) && guests[1].is_over());
  EXPECT_TRUE(comes_true([&] { return server.is_over(2); })) << "who serves hears of it";
  for (RawTcp* const stays : {&other, &guests[0], &guests[2], &guests[3]}) EXPECT_FALSE(stays->is_over());
}

TEST(GuardedListener, TheAddressWithTheMostMakesRoomForOthers) {
  Guarded server({4, 3});
  RawTcp lone = guest(server, "127.0.0.2");
  std::deque<RawTcp> crowd;
  for (int i = 0; i < 3; ++i) crowd.push_back(guest(server));
  RawTcp late = guest(server, "127.0.0.3");
  EXPECT_TRUE(crowd[0].readable(60000) && crowd[0].is_over());
  for (RawTcp* const stays : {&lone, &crowd[1], &crowd[2], &late}) EXPECT_FALSE(stays->is_over());
}

TEST(GuardedListener, OneThatItsServerHasEndedTakesNoRoom) {
  Guarded server({2, 2});
  std::deque<RawTcp> guests;
  for (int i = 0; i < 2; ++i) guests.push_back(guest(server));
  server.end(1);
  EXPECT_TRUE(guests[1].readable(60000) && guests[1].is_over());
  guests[1].close();
  const RawTcp other = guest(server, "127.0.0.2");  // the end came before
  EXPECT_FALSE(guests[0].is_over());
}

TEST(GuardedListener, OneOverWhichNothingComesIsClosed) {
  Guarded server({10, 10}, milliseconds(100));
  RawTcp speaker = guest(server);
  ASSERT_TRUE(speaker.send({1}));
  RawTcp mute = guest(server);
  EXPECT_TRUE(mute.readable(60000) && mute.is_over());
  EXPECT_FALSE(speaker.is_over());
}

TEST(GuardedListener, WithoutDescriptorsItGoesOnLater) {
  Guarded server({10, 10});
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Endpoint to = server.at();
  {
    const NoDescriptors none;
    ASSERT_EQ(::connect(fd.get(), as_sockaddr(to), to.size), 0);
    ::usleep(50000);
    EXPECT_EQ(server.taken(), 0U);
  }
  EXPECT_TRUE(comes_true([&] { return server.taken() == 1; }));
}

TEST(GuardedListener, CutEndsAllOfThem) {
  Guarded server({10, 10});
  RawTcp one = guest(server), two = guest(server);
  server.listener().stop();
  EXPECT_FALSE(one.is_over());
  server.listener().cut();
  EXPECT_TRUE(one.readable(60000) && one.is_over());
  EXPECT_TRUE(two.readable(60000) && two.is_over());
}

TEST(GuardedListener, WhatCannotBeHadIsNamed) {
  for (const auto& [text, part] : {std::pair{"nowhere.invalid:1", "--metrics=\"nowhere.invalid:1\""},
                                   {"192.0.2.1:9", "--metrics=\"192.0.2.1:9\": cannot bind 192.0.2.1:9/tcp: "}}) {
    const auto listener = GuardedListener::open(text, "--metrics");
    ASSERT_FALSE(listener.ok());
    EXPECT_EQ(listener.status().message().rfind(part, 0), 0U) << listener.status().message();
  }
}

TEST(GuardedListener, AWildcardTakesBothFamilies) {
  for (const char* const any : {"0.0.0.0:0", "[::]:0"}) {
    const auto listener = GuardedListener::open(any, "--listen");
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    const uint16_t port = port_of(listener.value()->local());
    EXPECT_TRUE(RawTcp(address("127.0.0.1:" + std::to_string(port))).connected());
  }
}

TEST(GuardedListener, LimitsAreAPartOfTheDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 1024;
  ::setrlimit(RLIMIT_NOFILE, &few);
  EXPECT_EQ(connection_limits(1).in_all, 512U);
  EXPECT_EQ(connection_limits(1).from_address, 256U);
  EXPECT_EQ(connection_limits(2).in_all, 256U);
  EXPECT_EQ(connection_limits(2).from_address, 128U) << "one address keeps no other out";
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace switchml
