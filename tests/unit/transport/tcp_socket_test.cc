#include "transport/tcp_socket.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>

#include "transport/tcp_harness.h"

namespace switchml {
namespace {

TEST(TcpSocket, OptionsOutOfRangeAreNamed) {
  const auto message = [](const auto& change) {
    TcpOptions options;
    change(&options);
    const Status status = check_tcp_options(options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_TRUE(check_tcp_options({}).ok());
  for (const size_t bytes : {size_t{0}, (size_t{1} << 24) + 1}) {
    const std::string text = message([bytes](TcpOptions* options) { options->max_frame_bytes = bytes; });
    EXPECT_NE(text.find(std::to_string(bytes) + " bytes; allowed: 1 to 16777216"), std::string::npos) << text;
  }
  for (const size_t count : {0, 65537}) {
    const std::string text = message([count](TcpOptions* options) { options->max_connections = count; });
    EXPECT_NE(text.find(std::to_string(count) + " connections; allowed: 1 to 65536"), std::string::npos) << text;
  }
  EXPECT_NE(message([](TcpOptions* options) { options->listen.size = 3; }).find("not an IPv4"), std::string::npos);
}

TEST(TcpSocket, APortThatIsTakenIsNamed) {
  const Result<Fd> first = listen_tcp(listening("127.0.0.1:0"));
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  TcpOptions options;
  options.listen = local_endpoint(first.value().get());
  const Result<Fd> second = listen_tcp(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(to_string(options.listen)), std::string::npos);
  EXPECT_NE(second.status().message().find("in use"), std::string::npos) << second.status().message();
}

bool becomes(int fd, short event) {
  pollfd polled{fd, event, 0};
  return ::poll(&polled, 1, 60000) == 1;
}

TEST(TcpSocket, ConnectsAndAccepts) {
  for (const std::string at : {"127.0.0.1:0", "[::1]:0"}) {
    const Result<Fd> listener = listen_tcp(listening(at));
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    Endpoint from, source;
    EXPECT_FALSE(accept_tcp(listener.value().get(), &from).valid());
    EXPECT_EQ(errno, EAGAIN);
    const Endpoint to = with_carrier(local_endpoint(listener.value().get()), Carrier::kTcp);
    int error = 0;
    const Fd client = connect_tcp({}, to, &source, &error);
    ASSERT_TRUE(client.valid()) << error;
    ASSERT_TRUE(becomes(client.get(), POLLOUT) && becomes(listener.value().get(), POLLIN));
    const Fd server = accept_tcp(listener.value().get(), &from);
    ASSERT_TRUE(server.valid());
    EXPECT_EQ(from, with_carrier(local_endpoint(client.get()), Carrier::kTcpAccepted));
    EXPECT_EQ(source, local_endpoint(client.get()));
    for (const int fd : {client.get(), server.get()}) {
      int on = 0;
      socklen_t size = sizeof on;
      EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
      EXPECT_NE(on, 0);
      EXPECT_EQ(take_socket_error(fd), 0);
      EXPECT_FALSE(is_over(fd, &error));
    }
  }
}

// Where the kernel can, it repeats each second, so that it sees the end of an outage soon.
TEST(TcpSocket, PausesBetweenRepetitionsAreShort) {
  const Result<Fd> listener = listen_tcp(listening());
  ASSERT_TRUE(listener.ok());
  Endpoint from, source;
  int error = 0;
  const Endpoint to = with_carrier(local_endpoint(listener.value().get()), Carrier::kTcp);
  const Fd client = connect_tcp({}, to, &source, &error);
  ASSERT_TRUE(client.valid() && becomes(listener.value().get(), POLLIN));
  const Fd server = accept_tcp(listener.value().get(), &from);
  for (const int fd : {client.get(), server.get()}) {
    int pause_ms = 0;
    socklen_t size = sizeof pause_ms;
    constexpr int kTcpRtoMaxMs = 44;
    if (::getsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &pause_ms, &size) != 0) GTEST_SKIP() << "Linux before 6.15";
    EXPECT_EQ(pause_ms, 1000);
  }
}

TEST(TcpSocket, TellsHowLongNothingWasAcknowledged) {
  RawTcpListener listener(address("127.0.0.1:0"));
  RawTcp client(listener.at());
  RawTcp server = listener.accept();
  EXPECT_EQ(unacknowledged_for(client.fd()), Duration::zero());
  ASSERT_TRUE(client.deliver({7}));
  EXPECT_EQ(unacknowledged_for(client.fd()), Duration::zero());
  server.set_deaf(true);
  ASSERT_TRUE(client.send({7}));
  EXPECT_TRUE(drive_until({}, [&] { return unacknowledged_for(client.fd()) > milliseconds(50); }));
  server.set_deaf(false);
  EXPECT_TRUE(drive_until({}, [&] { return unacknowledged_for(client.fd()) == Duration::zero(); }));
}

TEST(TcpSocket, ConnectsAgainFromWhereItWas) {  // [TCP-6]
  const Result<Fd> listener = listen_tcp(listening("127.0.0.1:0"));
  ASSERT_TRUE(listener.ok());
  const Endpoint to = with_carrier(local_endpoint(listener.value().get()), Carrier::kTcp);
  Endpoint source, from;
  int error = 0;
  Fd client = connect_tcp({}, to, &source, &error);
  ASSERT_TRUE(becomes(listener.value().get(), POLLIN));
  Fd server = accept_tcp(listener.value().get(), &from);
  int same = 0;  // if nobody has taken the port meanwhile
  for (int round = 0; round < 5; ++round) {
    const Endpoint before = from;
    server = Fd();  // the one who closes first keeps the port busy
    ASSERT_TRUE(becomes(client.get(), POLLIN));
    reset_tcp(std::move(client));
    client = connect_tcp({}, to, &source, &error);
    ASSERT_TRUE(client.valid()) << error;
    ASSERT_TRUE(becomes(listener.value().get(), POLLIN));
    server = accept_tcp(listener.value().get(), &from);
    same += from == before ? 1 : 0;
  }
  EXPECT_GT(same, 0);

  // Where the port is somebody else's by now, another one will do.
  const Endpoint taken = local_endpoint(listener.value().get());
  source = taken;
  const Fd other = connect_tcp({}, to, &source, &error);
  ASSERT_TRUE(other.valid()) << error;
  EXPECT_NE(source, taken);
}

TEST(TcpSocket, AConnectionToItselfIsRefused) {
  Endpoint to;
  {
    const Result<Fd> listener = listen_tcp(listening("127.0.0.1:0"));
    ASSERT_TRUE(listener.ok());
    to = with_carrier(local_endpoint(listener.value().get()), Carrier::kTcp);
  }
  Endpoint source = with_carrier(to, Carrier::kPackets);
  int error = 0;
  EXPECT_FALSE(connect_tcp({}, to, &source, &error).valid());
  EXPECT_EQ(error, ECONNREFUSED);
  EXPECT_EQ(source.size, 0) << "the next attempt must be another one";
}

// What came before the end is there to be read.
TEST(TcpSocket, AConnectionIsOverWhenNothingIsLeft) {
  for (const bool reset : {false, true}) {
    const Result<Fd> listener = listen_tcp(listening());
    ASSERT_TRUE(listener.ok());
    RawTcp client(local_endpoint(listener.value().get()));
    Endpoint from;
    const Fd server = accept_tcp(listener.value().get(), &from);
    int error = -1;
    EXPECT_FALSE(is_over(server.get(), &error));
    ASSERT_TRUE(client.deliver({7}));
    const linger at_once{reset ? 1 : 0, 0};
    ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    client.close();
    ASSERT_TRUE(becomes(server.get(), POLLRDHUP));
    EXPECT_FALSE(is_over(server.get(), &error));
    uint8_t byte = 0;
    EXPECT_EQ(::recv(server.get(), &byte, 1, 0), 1);
    EXPECT_TRUE(is_over(server.get(), &error));
    EXPECT_EQ(error, reset ? ECONNRESET : 0);
  }
}

TEST(TcpSocket, AResetIsSeenAtOnce) {
  const Result<Fd> listener = listen_tcp(listening("127.0.0.1:0"));
  ASSERT_TRUE(listener.ok());
  RawTcp client(local_endpoint(listener.value().get()));
  Endpoint from;
  reset_tcp(accept_tcp(listener.value().get(), &from));
  ASSERT_TRUE(client.readable(60000));
  EXPECT_EQ(take_socket_error(client.fd()), ECONNRESET);
}

}  // namespace
}  // namespace switchml
