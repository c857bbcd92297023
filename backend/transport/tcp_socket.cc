#include "transport/tcp_socket.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

#include "socket/address.h"
#include "socket/sockaddr.h"

namespace switchml {

namespace {

constexpr size_t kMostFrameBytes = size_t{1} << 24;
constexpr size_t kMostConnections = 65536;
constexpr int kBacklog = 4096;
// A peer on a host that is gone is given up after two minutes; liveness is others' business. Attempts to connect: 31 s.
constexpr int kPatienceMs = 120'000;
constexpr int kKeepIdle = 60;
constexpr int kKeepInterval = 15;
constexpr int kKeepCount = 4;
constexpr int kSyns = 4;
// Linux 6.15 has it; headers may not. Without it pauses between repetitions double up to two minutes, so that the end
// of an outage is noticed late.
constexpr int kTcpRtoMaxMs = 44;
constexpr int kLongestPauseMs = 1000;

void set(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

/// The privileged option goes beyond net.core.[rw]mem_max.
void set_buffer(int fd, int forced, int plain, size_t bytes) {
  if (bytes == 0) return;
  const int value = static_cast<int>(std::min<size_t>(bytes, INT_MAX / 2));
  if (::setsockopt(fd, SOL_SOCKET, forced, &value, sizeof value) != 0) set(fd, SOL_SOCKET, plain, value);
}

void set_features(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepInterval);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kPatienceMs);
  set(fd, IPPROTO_TCP, kTcpRtoMaxMs, kLongestPauseMs);
}

/// The buffers' sizes go into the handshake, and to the connections that a listener accepts.
Fd open_socket(const TcpOptions& options, const Endpoint& address) {
  Fd fd(::socket(family_of(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  set_buffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF, options.receive_buffer_bytes);
  set_buffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF, options.send_buffer_bytes);
  return fd;
}

}  // namespace

Status check_tcp_options(const TcpOptions& options) {
  const auto bad = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  if (options.max_frame_bytes < 1 || options.max_frame_bytes > kMostFrameBytes) {
    return bad("TCP frames of up to " + std::to_string(options.max_frame_bytes) + " bytes; allowed: 1 to " +
               std::to_string(kMostFrameBytes));
  }
  if (options.max_connections < 1 || options.max_connections > kMostConnections) {
    return bad("TCP with " + std::to_string(options.max_connections) + " connections; allowed: 1 to " +
               std::to_string(kMostConnections));
  }
  if (options.listen.size != 0 && family_of(options.listen) == AF_UNSPEC) {
    return bad(to_string(options.listen) + " is not an IPv4 or IPv6 address");
  }
  return {};
}

Result<Fd> listen_tcp(const TcpOptions& options) {
  const auto failure = [&options](const char* what) {
    const int error = errno;
    return Status(Code::kUnavailable, std::string(what) + to_string(with_carrier(options.listen, Carrier::kTcp)) +
                                          ": " + std::system_category().message(error));
  };
  Fd fd = open_socket(options, options.listen);
  if (!fd.valid()) return failure("cannot open a socket for ");
  // Connections of an earlier listener may linger on the port.
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family_of(options.listen) == AF_INET6) set(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, options.takes_ipv4 ? 0 : 1);
  if (::bind(fd.get(), as_sockaddr(options.listen), options.listen.size) != 0) return failure("cannot bind ");
  if (::listen(fd.get(), kBacklog) != 0) return failure("cannot listen at ");
  return fd;
}

Result<Fd> listen_tcp(const Endpoint& address) {
  TcpOptions options;
  options.listen = address;
  if (is_any(address)) {
    options.listen = with_port(any_endpoint(AF_INET6), port_of(address));
    options.takes_ipv4 = true;
    if (auto both = listen_tcp(options); both.ok()) return both;
    options.listen = address;
    options.takes_ipv4 = false;
  }
  return listen_tcp(options);
}

Fd connect_tcp(const TcpOptions& options, const Endpoint& to, Endpoint* source, int* error) {
  const Endpoint before = std::exchange(*source, Endpoint{});
  Fd fd = open_socket(options, to);
  *error = errno;
  if (!fd.valid()) return fd;
  set(fd.get(), IPPROTO_TCP, TCP_SYNCNT, kSyns);
  set_features(fd.get());
  // A port that is bound is not given to others' connections meanwhile, as one is that the kernel adds by itself. Where
  // it is in use all the same, another one will do.
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const Endpoint any = any_endpoint(family_of(to));
  if (before.size == 0 || ::bind(fd.get(), as_sockaddr(before), before.size) != 0) {  // [TCP-6]
    [[maybe_unused]] const int bound = ::bind(fd.get(), as_sockaddr(any), any.size);
  }
  if (::connect(fd.get(), as_sockaddr(to), to.size) != 0 && errno != EINPROGRESS) {
    *error = errno;
    return before.size != 0 ? connect_tcp(options, to, source, error) : Fd();
  }
  const Endpoint local = local_endpoint(fd.get());
  if (with_carrier(local, to.carrier) == to) {
    *error = ECONNREFUSED;
    reset_tcp(std::move(fd));
    return {};
  }
  *source = local;
  return fd;
}

Fd accept_tcp(int listener, Endpoint* from) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) return fd;
  set_features(fd.get());
  *from = with_carrier(endpoint_of(reinterpret_cast<const sockaddr*>(&address)), Carrier::kTcpAccepted);  // [TCP-5]
  return fd;
}

void reset_tcp(Fd fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  // Closing does nothing while a child has the socket; this does what closing would have done.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  [[maybe_unused]] const int undone = ::connect(fd.get(), &nobody, sizeof nobody);
}

void end_tcp(Fd fd) { ::shutdown(fd.get(), SHUT_RDWR); }

bool is_over(int fd, int* error) {
  uint8_t byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  *error = got < 0 ? errno : 0;
  return got == 0 || (got < 0 && *error != EAGAIN && *error != EWOULDBLOCK && *error != EINTR);
}

Duration unacknowledged_for(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) return {};
  return std::max(milliseconds(1), milliseconds(info.tcpi_last_ack_recv));
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace switchml
