#include "watch/peer_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "socket/close_on_fork.h"

namespace switchml {

namespace {

constexpr size_t kHeader = 4;  // Word, rank (2 bytes, the low one first), length of the text.

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// The kernel asks ten times, or once a second, before it gives the other host up.
void keep_alive(int fd, Duration patience) {
  const auto whole = static_cast<int>(std::chrono::duration_cast<seconds>(patience).count());
  const int interval = std::max(1, whole / 10);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, std::max(1, whole / interval - 1));
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, std::max(1, whole) * 1000);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

PeerConnection::PeerConnection(ByteStream stream, Duration patience) : stream_(std::move(stream)) {
  keep_alive(fd(), patience);
  close_on_fork(fd());
}

PeerConnection::~PeerConnection() {
  if (stream_.valid()) close_forgotten(stream_.release().release());
}

void PeerConnection::send(const PeerMessage& message) {
  const std::string text = message.text.substr(0, 255);
  std::string frame{static_cast<char>(message.word), static_cast<char>(message.rank),
                    static_cast<char>(message.rank >> 8), static_cast<char>(text.size())};
  frame += text;
  if (!flush()) return;
  cut_ = frame;
  if (!flush() && cut_.size() == frame.size()) cut_.clear();
}

bool PeerConnection::flush() {
  while (!cut_.empty() || stream_.owes()) {
    const ssize_t sent = stream_.send({reinterpret_cast<const uint8_t*>(cut_.data()), cut_.size()});
    if (sent < 0 && errno != EINTR) return false;
    cut_.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
  return true;
}

bool PeerConnection::receive(const std::function<void(const PeerMessage&)>& take, int* error) {
  flush();
  char bytes[4096];
  const ssize_t got = stream_.receive(bytes, sizeof bytes);
  if (got <= 0) {
    *error = got == 0 || errno == ByteStream::kCut ? 0 : errno;
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  received_.append(bytes, static_cast<size_t>(got));
  while (received_.size() >= kHeader) {
    const char word = received_[0];
    if (std::strchr("GFLUN", word) == nullptr || word == '\0') {
      *error = EBADMSG;
      return false;
    }
    const size_t size = kHeader + byte_of(received_[3]);
    if (received_.size() < size) break;
    const int rank = byte_of(received_[1]) | byte_of(received_[2]) << 8;
    take({static_cast<PeerWord>(word), rank, received_.substr(kHeader, size - kHeader)});
    received_.erase(0, size);
  }
  return true;
}

void PeerConnection::finish() { ::shutdown(fd(), SHUT_WR); }

}  // namespace switchml
