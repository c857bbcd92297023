#include "shm/segment_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "base/thread.h"

namespace switchml::shm {

namespace {

constexpr Duration kPatience = seconds(1);  // how long a peer that has connected may say nothing

Status failed(const std::string& what) {
  return {Code::kUnavailable, what + ": " + std::generic_category().message(errno)};
}

/// An abstract address: a zero, then the name. False: too long.
bool make_address(const std::string& name, sockaddr_un* address, socklen_t* size) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address->sun_path) return false;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

/// A message of one byte, with room for one descriptor. Stays where it is.
struct Envelope {
  Envelope() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  uint8_t nothing = 0;
  iovec part{&nothing, sizeof nothing};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

bool send_descriptor(int connection, int fd) {
  Envelope envelope;
  cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(connection, &envelope.message, MSG_NOSIGNAL) == 1;
}

Fd receive_descriptor(int connection) {
  Envelope envelope;
  if (::recvmsg(connection, &envelope.message, MSG_CMSG_CLOEXEC) != 1) return Fd();
  const cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return Fd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Fd(fd);
}

/// A signal of the user's program does not cut it short.
bool readable_by(int fd, Time end) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - monotonic_now()).count();
    pollfd wanted{fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 3600 * 1000)));
    if (ready >= 0 || errno != EINTR) return ready == 1;
  }
}

}  // namespace

Result<std::unique_ptr<SegmentServer>> SegmentServer::start(const Segment& segment, const std::string& name,
                                                            uint64_t key) {
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  Fd own(::fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0));
  sockaddr_un address{};
  socklen_t size = 0;
  if (!make_address(name, &address, &size)) {
    return Status(Code::kInvalidArgument, "\"" + name + "\" cannot be the name of a Unix socket");
  }
  const bool ready = listener.valid() && stop.valid() && own.valid() &&
                     ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::listen(listener.get(), SOMAXCONN) == 0;
  if (!ready) return failed("memory cannot be handed to the other ranks of this host");
  try {
    return std::unique_ptr<SegmentServer>(new SegmentServer(std::move(listener), std::move(stop), std::move(own), key));
  } catch (const NoThread& none) {
    return none.status();
  }
}

SegmentServer::SegmentServer(Fd listener, Fd stop, Fd segment, uint64_t key)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      segment_(std::move(segment)),
      key_(key),
      thread_(make_thread("handing memory to the other ranks of this host", [this] { run(); })) {}

SegmentServer::~SegmentServer() {
  const uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) != sizeof one && errno == EINTR) {
  }
  thread_.join();
}

void SegmentServer::run() const {
  for (;;) {
    pollfd wanted[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[1].revents != 0) return;
    if (wanted[0].revents == 0) continue;
    const Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      serve(connection.get());
    } else {
      ::poll(&wanted[1], 1, 10);  // out of descriptors, say: it may pass
    }
  }
}

void SegmentServer::serve(int connection) const {
  uint64_t key = 0;
  if (!same_user(connection) || !readable_by(connection, monotonic_now() + kPatience)) return;
  if (::recv(connection, &key, sizeof key, 0) != sizeof key || key != key_) return;
  send_descriptor(connection, segment_.get());
}

Result<Segment> fetch_segment(const std::string& name, uint64_t key, size_t bytes, Time deadline) {
  sockaddr_un address{};
  socklen_t size = 0;
  if (!make_address(name, &address, &size)) {
    return Status(Code::kMismatch, "rank 0 names its memory \"" + name + "\": install the same switchml on all ranks");
  }
  const Fd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid() || ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return failed("rank 0 cannot be asked for memory to share");
  }
  if (!same_user(connection.get())) {
    return Status(Code::kUnavailable, "rank 0 runs as another user, and shares no memory with this one");
  }
  if (::send(connection.get(), &key, sizeof key, MSG_NOSIGNAL) != sizeof key) return failed("asking for shared memory");
  if (!readable_by(connection.get(), deadline)) {
    return Status(Code::kTimeout, "rank 0 was asked for memory to share, and does not answer");
  }
  Fd fd = receive_descriptor(connection.get());
  if (!fd.valid()) return Status(Code::kUnavailable, "rank 0 refuses to share memory with this process");
  return Segment::adopt(std::move(fd), bytes);
}

}  // namespace switchml::shm
