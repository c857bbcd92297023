#include "transport/tcp_connections.h"

#include <poll.h>

#include <cerrno>
#include <memory>

#include "transport/tcp_harness.h"
#include "transport/tcp_socket.h"

namespace switchml {
namespace {

Endpoint deserted() { return with_carrier(open_tcp(listening())->local(), Carrier::kTcp); }

struct Bench {
  explicit Bench(const TcpOptions& options = {}) : connections(Fd(), options, &socket_error) {}
  /// Lets what has happened take effect: refusals, ends of connections.
  void turn() {
    connections.service();
    while (TcpConnection* const next = connections.next_ready()) connections.read(next);
  }
  SocketError socket_error;
  TcpConnections connections;
};

/// A listener of ours, and its connections.
struct Accepting {
  explicit Accepting(const TcpOptions& options = listening()) {
    Result<Fd> opened = listen_tcp(options);
    EXPECT_TRUE(opened.ok());
    at = local_endpoint(opened.value().get());
    connections = std::make_unique<TcpConnections>(std::move(opened.value()), options, &socket_error);
  }
  /// The next one that can be read; a minute at most.
  TcpConnection* next() {
    TcpConnection* ready = nullptr;
    drive_until({}, [&] {
      connections->service();
      return (ready = connections->next_ready()) != nullptr;
    });
    return ready;
  }
  SocketError socket_error;
  Endpoint at;
  std::unique_ptr<TcpConnections> connections;
};

TEST(TcpConnections, OnlyATcpAddressCanBeReached) {
  RawTcpListener listener(address("127.0.0.1:0"));
  Bench bench;
  EXPECT_EQ(bench.connections.reach({}), nullptr);
  EXPECT_EQ(bench.connections.reach(with_carrier({}, Carrier::kTcp)), nullptr);
  EXPECT_EQ(bench.connections.reach(with_carrier(listener.at(), Carrier::kPackets)), nullptr);
  EXPECT_EQ(bench.connections.reach(with_carrier(listener.at(), Carrier::kTcpAccepted)), nullptr);
  TcpConnection* const connection = bench.connections.reach(listener.at());
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(connection->is_open());
  EXPECT_EQ(bench.connections.reach(listener.at()), connection) << "there is one to an endpoint";
  EXPECT_TRUE(listener.accept().connected());
  EXPECT_TRUE(bench.socket_error.empty());
}

// Attempts at times 0, 10, 30, 70 ms and so on: however long it takes, there are no more than that.
TEST(TcpConnections, AttemptsBecomeRare) {
  TcpOptions options;
  options.max_backoff = std::chrono::hours(1);
  Bench bench(options);
  const Endpoint to = deserted();
  const Time begin = monotonic_now();
  int refusals = 0;
  while (refusals < 5 && monotonic_now() - begin < seconds(60)) {
    bench.connections.reach(to);
    bench.turn();
    if (bench.socket_error.take_refusal()) ++refusals;
  }
  EXPECT_EQ(refusals, 5);
  EXPECT_GE(monotonic_now() - begin, milliseconds(10 + 20 + 40 + 80));
  EXPECT_EQ(bench.socket_error.take(), to_string(to) + ": Connection refused");
}

TEST(TcpConnections, TheBackoffIsBounded) {
  TcpOptions options;
  options.max_backoff = nanoseconds(0);
  Bench bench(options);
  const Endpoint to = deserted();
  for (int i = 0; i < 40; ++i) {
    EXPECT_NE(bench.connections.reach(to), nullptr);
    const Time end = monotonic_now() + seconds(60);
    while (!bench.socket_error.take_refusal() && monotonic_now() < end) bench.turn();
  }
  EXPECT_LT(bench.connections.reach(to)->backoff, milliseconds(1));
}

TEST(Standstill, LastsFromStepToStep) {
  Standstill standstill;
  EXPECT_EQ(standstill.note(false, 0, seconds(5)), seconds(0));
  EXPECT_EQ(standstill.note(true, 1, seconds(5)), seconds(0)) << "it was begun a moment ago, for all one knows";
  EXPECT_EQ(standstill.note(true, 1, seconds(5)), seconds(5));
  EXPECT_EQ(standstill.note(true, 1, seconds(7)), seconds(12));
  EXPECT_EQ(standstill.note(true, 2, seconds(5)), seconds(0));
  EXPECT_EQ(standstill.note(true, 2, seconds(3)), seconds(3));
  EXPECT_EQ(standstill.note(false, 2, seconds(5)), seconds(0));
}

// Nobody is to be woken for what is not there.
TEST(TcpConnections, PatienceIsForWhatHasBegunOnly) {
  Accepting bench;
  const Duration hour = std::chrono::hours(1);
  EXPECT_EQ(bench.connections->patience(hour), hour);
  RawTcp peer(bench.at);
  TcpConnection* const connection = bench.next();
  ASSERT_NE(connection, nullptr);
  EXPECT_FALSE(bench.connections->read(connection));
  EXPECT_EQ(bench.connections->patience(hour), hour) << "it has said nothing";
  const Bytes frame = on_the_wire(pattern(1, 10));
  ASSERT_TRUE(peer.deliver({frame[0]}));
  ASSERT_EQ(bench.next(), connection);
  EXPECT_TRUE(bench.connections->read(connection));
  bench.connections->after_reading(connection);
  EXPECT_LE(bench.connections->patience(hour), seconds(1));
  ASSERT_TRUE(peer.deliver(Bytes(frame.begin() + 1, frame.end())));
  ASSERT_EQ(bench.next(), connection);
  const uint8_t* found = nullptr;
  uint32_t bytes = 0;
  while (!connection->in.has_next()) EXPECT_TRUE(bench.connections->read(connection));
  EXPECT_TRUE(connection->in.next(&found, &bytes));
  bench.connections->after_reading(connection);
  EXPECT_EQ(bench.connections->patience(hour), hour);
}

// A thread that waits is not woken for each packet of a frame.
TEST(TcpConnections, CanBeReadWhenAFrameIsWhole) {
  RawTcpListener listener(address("127.0.0.1:0"));
  Bench bench;
  TcpConnection* const connection = bench.connections.reach(listener.at());
  ASSERT_NE(connection, nullptr);
  RawTcp peer = listener.accept();
  const auto is_ready = [&] {
    bench.connections.service();
    return bench.connections.has_ready();
  };
  const auto read = [&] {
    ASSERT_TRUE(drive_until({}, is_ready));
    TcpConnection* const next = bench.connections.next_ready();
    ASSERT_EQ(next, connection);
    EXPECT_TRUE(bench.connections.read(next));
  };
  const Bytes frame = pattern(7, 20000);
  const Bytes stream = on_the_wire(frame);
  ASSERT_TRUE(peer.deliver(Bytes(stream.begin(), stream.begin() + 5000)));
  // The first read asks for a prefix only.
  const uint8_t* found = nullptr;
  uint32_t bytes = 0;
  for (int i = 0; i < 3 && connection->in.missing() != stream.size() - 5000; ++i) {
    read();
    EXPECT_FALSE(connection->in.next(&found, &bytes));
    bench.connections.after_reading(connection);
  }
  EXPECT_EQ(connection->in.missing(), stream.size() - 5000);
  ASSERT_TRUE(peer.deliver(Bytes(stream.begin() + 5000, stream.end() - 1)));
  EXPECT_FALSE(is_ready());
  ASSERT_TRUE(peer.deliver(Bytes(stream.end() - 1, stream.end())));
  while (!connection->in.has_next()) read();
  ASSERT_TRUE(connection->in.next(&found, &bytes));
  EXPECT_EQ(Bytes(found, found + bytes), frame);
  bench.connections.after_reading(connection);
  // Less than a packet is not worth it.
  const Bytes small = on_the_wire(pattern(8, 1000));
  ASSERT_TRUE(peer.deliver(Bytes(small.begin(), small.begin() + 100)));
  read();
  bench.connections.after_reading(connection);
  EXPECT_EQ(connection->awaited, 1U);
}

TEST(TcpConnections, WritingIsWatchedOnlyWhileThereIsSomethingToWrite) {
  RawTcpListener listener(address("127.0.0.1:0"));
  Bench bench;
  TcpConnection* const connection = bench.connections.reach(listener.at());
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(bench.connections.is_writing()) << "it is connecting";
  const Time end = monotonic_now() + seconds(60);
  while (bench.connections.is_writing() && monotonic_now() < end) bench.turn();
  EXPECT_FALSE(bench.connections.is_writing());

  RawTcp peer = listener.accept();
  const Bytes frame = pattern(1, 60000);
  const TxFrame tx{frame.data(), 60000, nullptr};
  size_t taken = 0;
  for (bool full = false; !full; taken += full ? 0 : 1) {
    connection->burst = {0};
    full = bench.connections.send(connection, &tx) == 0;
    EXPECT_TRUE(connection->burst.empty());
  }
  EXPECT_TRUE(bench.connections.is_writing());
  size_t got = 0;
  while (got < taken && monotonic_now() < end) {
    bench.turn();
    if (peer.readable(0)) {
      EXPECT_EQ(peer.receive(kStreamPrefixBytes + frame.size()), on_the_wire(frame));
      ++got;
    }
  }
  EXPECT_EQ(got, taken);
  bench.turn();
  EXPECT_FALSE(bench.connections.is_writing());
  EXPECT_FALSE(peer.readable(0));
}

TcpOptions without_backoff() {
  TcpOptions options;
  options.max_backoff = nanoseconds(0);
  return options;
}

/// A connection that is made again as soon as somebody asks for it.
struct TcpReconnects : testing::Test {
  RawTcpListener listener{address("127.0.0.1:0")};
  Bench bench{without_backoff()};
  TcpConnection* const connection = bench.connections.reach(listener.at());
};

TEST_F(TcpReconnects, AnEndIsNoticedAndTheNextAttemptComesFromTheSamePort) {
  ASSERT_NE(connection, nullptr);
  Endpoint source = connection->source;
  EXPECT_NE(port_of(source), 0);
  int same = 0;  // if nobody has taken it meanwhile
  for (const bool reset : {false, true, false}) {
    RawTcp peer = listener.accept();
    if (reset) {
      const linger at_once{1, 0};
      ::setsockopt(peer.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    peer.close();
    const Time end = monotonic_now() + seconds(60);
    while (connection->is_open() && monotonic_now() < end) bench.turn();
    ASSERT_FALSE(connection->is_open());
    const std::string socket_error = bench.socket_error.take();
    EXPECT_EQ(socket_error.find(to_string(listener.at()) + ": "), 0U) << socket_error;
    EXPECT_NE(socket_error.find(reset ? "reset" : "closed"), std::string::npos) << socket_error;
    EXPECT_EQ(bench.connections.reach(listener.at()), connection);
    EXPECT_TRUE(connection->is_open());
    same += connection->source == std::exchange(source, connection->source) ? 1 : 0;
  }
  EXPECT_GT(same, 0);
}

bool is_quiet(const TcpConnections& connections) {
  pollfd polled{connections.epoll(), POLLIN, 0};
  return ::poll(&polled, 1, 0) == 0;
}

// As a child of fork() has it. The kernel would go on about a connection that nobody knows any more.
TEST(TcpConnections, OneThatAChildHasIsOverAllTheSame) {
  Accepting bench;
  RawTcp peer(bench.at);
  TcpConnection* const connection = bench.next();
  ASSERT_NE(connection, nullptr);
  EXPECT_FALSE(bench.connections->read(connection));
  const Fd childs(::dup(connection->fd.get()));
  peer.shut_down(SHUT_WR);
  ASSERT_TRUE(drive_until({}, [&] {
    bench.connections->service();
    return peer.is_over();
  }));
  EXPECT_TRUE(is_quiet(*bench.connections));
  bench.connections->service();
  EXPECT_FALSE(bench.connections->has_ready());
}

TEST_F(TcpReconnects, TheSamePortIsUsedAgainThoughAChildHasTheSocket) {
  ASSERT_NE(connection, nullptr);
  std::vector<Fd> childs;
  int same = 0;  // if nobody has taken it meanwhile
  for (int round = 0; round < 3; ++round) {
    RawTcp peer = listener.accept();
    childs.emplace_back(::dup(connection->fd.get()));
    const Endpoint before = connection->source;
    peer.shut_down(SHUT_WR);
    ASSERT_TRUE(drive_until({}, [&] {
      bench.turn();
      return !connection->is_open();
    }));
    EXPECT_TRUE(peer.readable(60000));
    EXPECT_TRUE(peer.is_over());
    EXPECT_TRUE(is_quiet(bench.connections));
    bench.connections.reach(listener.at());
    ASSERT_TRUE(connection->is_open());
    same += connection->source == before ? 1 : 0;
  }
  EXPECT_GT(same, 0);
}

TEST(TcpConnections, TheEndOfAllIsSeenThoughAChildHasTheSocket) {
  Accepting bench;
  RawTcp peer(bench.at);
  TcpConnection* const connection = bench.next();
  ASSERT_NE(connection, nullptr);
  const Fd childs(::dup(connection->fd.get()));
  bench.connections.reset();
  ASSERT_TRUE(peer.readable(60000));
  EXPECT_TRUE(peer.is_over());
}

/// Nothing of what was sent is acknowledged in an outage, nor does our reset arrive.
TEST(TcpConnections, AStalledOneIsMadeAgainFromTheSamePort) {
  RawTcpListener listener(address("127.0.0.1:0"));
  TcpOptions options;
  options.stall = milliseconds(400);
  options.max_backoff = nanoseconds(0);
  const auto tcp = open_tcp(options);
  ASSERT_TRUE(send_surely(*tcp, pattern(1, 10), listener.at()));
  RawTcp before = listener.accept();
  ASSERT_TRUE(drive_until({tcp.get()}, [&] { return before.readable(0); }));
  before.receive(kStreamPrefixBytes + 10);
  const Endpoint from = before.peer();
  before.set_deaf(true);
  ASSERT_TRUE(send_surely(*tcp, pattern(2, 20), listener.at()));
  std::string socket_error;
  const Time end = monotonic_now() + seconds(60);
  while (socket_error.empty() && monotonic_now() < end) {  // nothing else wakes it
    tcp->wait(seconds(60));
    socket_error = tcp->take_error();
  }
  EXPECT_LT(monotonic_now(), end);
  EXPECT_EQ(socket_error, to_string(listener.at()) + ": Connection timed out");
  before.set_deaf(false);
  ASSERT_TRUE(send_surely(*tcp, pattern(3, 30), listener.at()));
  RawTcp again = listener.accept();
  ASSERT_TRUE(drive_until({tcp.get()}, [&] { return again.readable(0); }));
  EXPECT_EQ(again.receive(kStreamPrefixBytes + 30), on_the_wire(pattern(3, 30)));
  EXPECT_EQ(again.peer(), from);
  ASSERT_TRUE(before.readable(60000));
  EXPECT_TRUE(before.is_over()) << "the kernel ends the connection that had the address";
}

TEST(TcpConnections, NobodyLooksForAStallWhereAllIsAcknowledged) {
  RawTcpListener listener(address("127.0.0.1:0"));
  TcpOptions options;
  options.stall = milliseconds(40);
  Bench bench(options);
  const Duration hour = std::chrono::hours(1);
  TcpConnection* const connection = bench.connections.reach(listener.at());
  ASSERT_NE(connection, nullptr);
  RawTcp peer = listener.accept();
  EXPECT_EQ(bench.connections.patience(hour), hour);
  ASSERT_TRUE(drive_until({}, [&] {
    bench.turn();
    return !connection->connecting;
  }));
  const Bytes frame = pattern(1, 10);
  const TxFrame tx{frame.data(), 10, nullptr};
  connection->burst = {0};
  bench.connections.send(connection, &tx);
  EXPECT_LE(bench.connections.patience(hour), milliseconds(10));
  ASSERT_TRUE(drive_until({}, [&] {
    bench.turn();
    return bench.connections.patience(hour) == hour;
  }));
  EXPECT_TRUE(connection->is_open());
  EXPECT_TRUE(bench.socket_error.empty());
}

// Its owner has made it again after an outage, in which the end of the first one was lost. What the kernel says to it
// makes the owner's kernel end the first one.
TEST(TcpConnections, AnAcceptedOneThatIsMadeAgainTakesThePlaceOfTheFirst) {
  Accepting bench;
  auto peer = std::make_unique<RawTcp>(bench.at);
  const Endpoint from = peer->local();
  TcpConnection* const first = bench.next();
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(bench.connections->read(first));
  const Fd outage(::dup(first->fd.get()));
  RawTcp::set_deaf(outage.get(), true);
  const linger at_once{1, 0};
  ::setsockopt(peer->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  peer.reset();
  RawTcp::set_deaf(outage.get(), false);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), as_sockaddr(from), from.size) != 0) GTEST_SKIP() << "somebody else has the port by now";
  ASSERT_EQ(::connect(fd.get(), as_sockaddr(bench.at), bench.at.size), 0);
  RawTcp again(std::move(fd));
  const Bytes frame = on_the_wire(pattern(2, 20));
  ASSERT_TRUE(again.deliver(frame));
  Bytes got;
  ASSERT_TRUE(drive_until({}, [&] {
    bench.connections->service();
    TcpConnection* const ready = bench.connections->next_ready();
    if (ready == nullptr || !bench.connections->read(ready)) return false;
    EXPECT_EQ(ready->peer, with_carrier(from, Carrier::kTcpAccepted));
    const uint8_t* found = nullptr;
    uint32_t bytes = 0;
    if (!ready->in.next(&found, &bytes)) return false;
    got.assign(found, found + bytes);
    return true;
  }));
  EXPECT_EQ(got, pattern(2, 20));
}

}  // namespace
}  // namespace switchml
