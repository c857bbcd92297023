// Whom a TCP transport lets in, and who has to go for it.
#include <deque>
#include <memory>
#include <utility>

#include "no_descriptors.h"
#include "transport/tcp_harness.h"

namespace switchml {
namespace {

uint64_t count(const std::atomic<uint64_t>& counter) { return counter.load(); }

/// A connection from `source`; none if the port is somebody else's.
std::unique_ptr<RawTcp> connect_from(const Endpoint& source, const Endpoint& to) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), as_sockaddr(source), source.size) != 0) return nullptr;
  if (::connect(fd.get(), as_sockaddr(to), to.size) != 0) return nullptr;
  return std::make_unique<RawTcp>(std::move(fd));
}

/// A connection from an IPv4 address of this host.
RawTcp connect_from(const std::string& host, const Endpoint& to) {
  return std::move(*connect_from(address(host + ":0"), to));
}

TEST(TcpAccept, ACrowdOfStrangersNeitherFillsItNorHoldsUpMembers) {
  TcpOptions options = listening();
  options.max_connections = 16;
  options.max_from_address = 8;
  const auto tcp = open_tcp(options);
  RawTcp member = connect_from("127.0.0.2", tcp->local());
  ASSERT_TRUE(member.send(on_the_wire(pattern(1, 40))));
  const Received first = receive_one(*tcp);
  ASSERT_EQ(first.bytes, pattern(1, 40));
  std::deque<RawTcp> strangers;
  constexpr uint64_t kStrangers = 3000;
  for (uint32_t i = 0; i < kStrangers; ++i) {
    strangers.emplace_back(tcp->local());
    ASSERT_TRUE(strangers.back().connected()) << i;
    if (strangers.size() > 200) strangers.pop_front();
    tcp->wait(nanoseconds(0));
    RxFrame frame;
    ASSERT_EQ(tcp->receive(&frame, 1), 0U);
    if (i % 500 != 0) continue;
    ASSERT_TRUE(member.send(on_the_wire(pattern(i, 40))));
    const Received got = receive_one(*tcp);
    EXPECT_EQ(got.bytes, pattern(i, 40));
    EXPECT_EQ(got.from, first.from);
    EXPECT_TRUE(send_surely(*tcp, pattern(i, 50), got.from));
    EXPECT_EQ(member.receive(kStreamPrefixBytes + 50), on_the_wire(pattern(i, 50)));
  }
  // Another member gets in all the same.
  RawTcp late = connect_from("127.0.0.3", tcp->local());
  ASSERT_TRUE(late.send(on_the_wire(pattern(9, 90))));
  EXPECT_EQ(receive_one(*tcp).bytes, pattern(9, 90));
  const TcpCounters& counters = *options.counters;
  EXPECT_EQ(count(counters.turned_away), 0U);
  EXPECT_EQ(count(counters.broken), 0U);
  EXPECT_GT(count(counters.evicted), 0U);
  EXPECT_GT(count(counters.accepted), 16U);
}

/// `member` says something, and is heard.
void speak(Transport& at, RawTcp& member) {
  ASSERT_TRUE(member.send(on_the_wire(pattern(7, 10))));
  EXPECT_EQ(receive_one(at).bytes, pattern(7, 10));
}

bool becomes_over(Transport& at, RawTcp& peer) {
  return drive_until({&at}, [&] {
    RxFrame frame;
    EXPECT_EQ(at.receive(&frame, 1), 0U);
    return peer.is_over();
  });
}

// A frame gives nobody a place for ever: who fills it with such connections keeps nobody out.
TEST(TcpAccept, TheOneThatHasBeenSilentLongestMakesRoom) {
  TcpOptions options = listening();
  options.max_connections = 3;
  const auto tcp = open_tcp(options);
  std::deque<RawTcp> members;
  for (int i = 0; i < 3; ++i) {
    members.emplace_back(tcp->local());
    speak(*tcp, members.back());
  }
  speak(*tcp, members[0]);
  RawTcp late(tcp->local());
  speak(*tcp, late);
  EXPECT_TRUE(becomes_over(*tcp, members[1]));
  EXPECT_EQ(count(options.counters->evicted), 1U);
  speak(*tcp, members[0]);
  RawTcp later(tcp->local());
  EXPECT_TRUE(becomes_over(*tcp, members[2]));
  speak(*tcp, members[0]);
  speak(*tcp, late);
  speak(*tcp, later);
  EXPECT_EQ(count(options.counters->evicted), 2U);
  EXPECT_EQ(count(options.counters->turned_away), 0U);
  EXPECT_EQ(tcp->take_error(), "");
}

TEST(TcpAccept, AnAddressThatHasAllItMayMakesRoomItself) {
  TcpOptions options = listening("0.0.0.0:0");
  options.max_connections = 6;
  options.max_from_address = 2;
  const auto tcp = open_tcp(options);
  const Endpoint at = with_port(address("127.0.0.1:0"), port_of(tcp->local()));
  RawTcp elsewhere = connect_from("127.0.0.2", at);
  speak(*tcp, elsewhere);
  RawTcp a = connect_from("127.0.0.1", at);
  speak(*tcp, a);
  RawTcp b = connect_from("127.0.0.1", at);
  speak(*tcp, b);
  speak(*tcp, a);
  RawTcp c = connect_from("127.0.0.1", at);
  EXPECT_TRUE(becomes_over(*tcp, b));
  for (RawTcp* const member : {&elsewhere, &a, &c}) speak(*tcp, *member);
  EXPECT_EQ(count(options.counters->evicted), 1U);
  c.close();  // who leaves makes room
  for (int i = 0; i < 20; ++i) {
    RawTcp guest = connect_from("127.0.0.1", at);
    speak(*tcp, guest);
    speak(*tcp, a);
  }
  speak(*tcp, elsewhere);
}

TEST(TcpAccept, WhereOursAreAllThereIsNoRoom) {
  TcpOptions options = listening();
  options.max_connections = 1;
  const auto tcp = open_tcp(options);
  RawTcpListener listener(address("127.0.0.1:0"));
  EXPECT_TRUE(send_surely(*tcp, pattern(1, 10), listener.at()));
  RawTcp late(tcp->local());
  EXPECT_TRUE(becomes_over(*tcp, late));
  EXPECT_EQ(count(options.counters->turned_away), 1U);
  EXPECT_EQ(count(options.counters->evicted), 0U);
  EXPECT_NE(tcp->take_error().find("there are 1 already"), std::string::npos);
}

// Frames that are to be lent yet are not lost for it.
TEST(TcpAccept, WhoseFramesAreBeingLentStays) {
  TcpOptions options = listening();
  options.max_connections = 1;
  const auto tcp = open_tcp(options);
  RawTcp member(tcp->local());
  Bytes both = on_the_wire(pattern(1, 10));
  const Bytes second = on_the_wire(pattern(2, 20));
  both.insert(both.end(), second.begin(), second.end());
  ASSERT_TRUE(member.deliver(both));
  EXPECT_EQ(receive_one(*tcp).bytes, pattern(1, 10));
  RawTcpListener listener(address("127.0.0.1:0"));
  EXPECT_EQ(send_all(*tcp, {pattern(1, 10)}, listener.at()), 1U) << "lost: there is no room";
  EXPECT_EQ(receive_one(*tcp).bytes, pattern(2, 20));
  EXPECT_TRUE(send_surely(*tcp, pattern(3, 30), listener.at()));
  EXPECT_EQ(listener.accept().receive(kStreamPrefixBytes + 30), on_the_wire(pattern(3, 30)));
  EXPECT_TRUE(member.readable(60000));
  EXPECT_TRUE(member.is_over());
}

TEST(TcpAccept, WhatCannotBeConnectedToAnyMoreMakesRoom) {
  TcpOptions options;
  options.max_connections = 2;
  const auto tcp = open_tcp(options);
  RawTcpListener a(address("127.0.0.1:0")), b(address("127.0.0.1:0")), c(address("127.0.0.1:0"));
  EXPECT_TRUE(send_surely(*tcp, pattern(1, 10), a.at()));
  EXPECT_TRUE(send_surely(*tcp, pattern(1, 10), b.at()));
  RawTcp at_a = a.accept();
  EXPECT_EQ(send_all(*tcp, {pattern(1, 10)}, c.at()), 1U) << "lost: nobody can be closed for it";
  EXPECT_NE(tcp->take_error().find("there are 2 already"), std::string::npos);
  at_a.close();
  ASSERT_TRUE(drive_until({tcp.get()}, [&] {
    RxFrame frame;
    tcp->receive(&frame, 1);
    return !tcp->take_error().empty();
  }));
  EXPECT_TRUE(send_surely(*tcp, pattern(3, 10), c.at()));
  EXPECT_EQ(c.accept().receive(kStreamPrefixBytes + 10), on_the_wire(pattern(3, 10)));
}

// The kernel knows that the first one is over, and has not been asked.
TEST(TcpAccept, TheSameAddressAgainIsANewConnection) {
  const auto tcp = open_tcp(listening());
  std::unique_ptr<RawTcp> second;
  Received got;
  for (int attempt = 0; second == nullptr && attempt < 20; ++attempt) {
    auto first = connect_from(address("127.0.0.1:0"), tcp->local());
    ASSERT_TRUE(first && first->send(on_the_wire(pattern(1, 10))));
    got = receive_one(*tcp);
    const Endpoint from = first->local();
    const linger at_once{1, 0};
    ::setsockopt(first->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    first.reset();
    second = connect_from(from, tcp->local());
  }
  ASSERT_TRUE(second && second->send(on_the_wire(pattern(2, 20))));
  const Received again = receive_one(*tcp);
  EXPECT_EQ(again.bytes, pattern(2, 20));
  EXPECT_EQ(again.from, got.from);
  EXPECT_TRUE(send_surely(*tcp, pattern(3, 30), got.from));
  EXPECT_EQ(second->receive(kStreamPrefixBytes + 30), on_the_wire(pattern(3, 30)));
}

TEST(TcpAccept, MemoryOfACrowdIsGivenBack) {
  TcpOptions options = listening();
  options.patience = milliseconds(80);  // which is how often it looks, too
  const auto tcp = open_tcp(options);
  std::deque<RawTcp> crowd;
  for (int i = 0; i < 40; ++i) {
    crowd.emplace_back(tcp->local());
    ASSERT_TRUE(crowd.back().send({on_the_wire(pattern(1, 10))[0]}));
  }
  ASSERT_TRUE(drive_until({tcp.get()}, [&] {
    RxFrame frame;
    EXPECT_EQ(tcp->receive(&frame, 1), 0U);
    return count(options.counters->stuck) == 40;
  }));
  const size_t buffer = 4 * (options.max_frame_bytes + kStreamPrefixBytes);
  const Time end = monotonic_now() + seconds(60);
  while (tcp->limits().held_bytes > 8 * buffer && monotonic_now() < end) tcp->wait(seconds(60));
  EXPECT_LT(monotonic_now(), end);
}

// Nothing wakes who waits but its own patience.
TEST(TcpAccept, WhoNeitherCompletesAFrameNorTakesOneIsClosed) {
  for (const bool cut : {true, false}) {
    TcpOptions options = listening();
    options.patience = milliseconds(100);
    const auto tcp = open_tcp(options);
    RawTcp idle(tcp->local());
    speak(*tcp, idle);
    RawTcp stuck(tcp->local());
    ASSERT_TRUE(stuck.send(on_the_wire(pattern(1, 10))));
    const Endpoint from = receive_one(*tcp).from;
    if (cut) {
      ASSERT_TRUE(stuck.send({on_the_wire(pattern(2, 5000))[0]}));
    } else {
      const std::vector<Bytes> frames(8, pattern(3, 60000));
      while (send_all(*tcp, frames, from) != 0) continue;
    }
    const Time end = monotonic_now() + seconds(60);
    while (count(options.counters->stuck) == 0 && monotonic_now() < end) {
      tcp->wait(seconds(60));
      RxFrame frame;
      EXPECT_EQ(tcp->receive(&frame, 1), 0U);
    }
    EXPECT_LT(monotonic_now(), end);
    EXPECT_EQ(count(options.counters->stuck), 1U);
    EXPECT_EQ(tcp->take_error(), to_string(from) + ": " + (cut ? "did not complete a frame" : "takes no frames") +
                                     "; its connection was closed");
    if (cut) {
      EXPECT_TRUE(stuck.readable(60000));
      EXPECT_TRUE(stuck.is_over());
    }
    speak(*tcp, idle);
  }
}

// The listener stays readable: who waited for it to become quiet would turn round and round.
TEST(TcpAccept, WithoutDescriptorsItRestsAndGoesOnLater) {
  const auto tcp = open_tcp(listening());
  RawTcp client(tcp->local());
  ASSERT_TRUE(client.send(on_the_wire(pattern(1, 10))));
  {
    const NoDescriptors none;
    const Time begin = monotonic_now();
    int turns = 0;
    for (; monotonic_now() - begin < milliseconds(300); ++turns) tcp->wait(seconds(1));
    EXPECT_LT(turns, 30);
    RxFrame frame;
    EXPECT_EQ(tcp->receive(&frame, 1), 0U);
    const std::string socket_error = tcp->take_error();
    EXPECT_NE(socket_error.find("open files"), std::string::npos) << socket_error;
  }
  EXPECT_EQ(receive_one(*tcp).bytes, pattern(1, 10));
}

TEST(TcpAccept, WithoutDescriptorsAStrangerIsClosed) {
  TcpOptions options = listening();
  const auto tcp = open_tcp(options);
  RawTcp stranger(tcp->local());
  ASSERT_TRUE(drive_until({tcp.get()}, [&] {
    RxFrame frame;
    EXPECT_EQ(tcp->receive(&frame, 1), 0U);
    return count(options.counters->accepted) == 1;
  }));
  RxFrame frame;
  EXPECT_EQ(tcp->receive(&frame, 1), 0U);
  RawTcp client(tcp->local());
  ASSERT_TRUE(client.send(on_the_wire(pattern(1, 10))));
  {
    const NoDescriptors none;
    EXPECT_EQ(receive_one(*tcp).bytes, pattern(1, 10));
    EXPECT_EQ(count(options.counters->evicted), 1U);
  }
  EXPECT_TRUE(stranger.is_over());
}

}  // namespace
}  // namespace switchml
