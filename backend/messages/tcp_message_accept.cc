// Connections that other ranks, and strangers, make to a TcpMessageTransport.
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "messages/tcp_message_transport.h"
#include "messages/tcp_message_wire.h"
#include "socket/close_on_fork.h"
#include "transport/tcp_socket.h"

namespace switchml {

using namespace tcp_message;

namespace {

constexpr int kAccepts = 64;
constexpr size_t kStrangers = 16;  // beyond the ranks
constexpr Duration kRest = milliseconds(100);

}  // namespace

void TcpMessageTransport::accept_some() {
  const Time now = monotonic_now();
  if (rests_until_ != kNever) return;
  has_accepted_all_ = false;
  for (int i = 0; i < kAccepts; ++i) {
    Endpoint from;
    Fd fd = accept_tcp(options_.listener.get(), &from);
    const bool shortage = !fd.valid() && is_shortage(errno);
    const bool crowded = strangers_.size() >= kStrangers + peers_.size();
    if ((shortage || crowded) && !strangers_.empty()) {  // A rank says its number at once.
      forget(&strangers_.front().stream);
      strangers_.pop_front();
    }
    if (shortage) rest(now);
    if (!fd.valid()) {
      has_accepted_all_ = !shortage;
      return;
    }
    close_on_fork(fd.get());
    strangers_.push_back({ByteStream(std::move(fd), options_.sealed.get()), now, {}});
    const int socket = strangers_.back().stream.fd();
    watch(socket, EPOLLIN, kStranger + static_cast<uint64_t>(socket));
    if (greet(strangers_.back())) strangers_.pop_back();
  }
}

/// True: it is none any more.
bool TcpMessageTransport::greet(Stranger& stranger) {
  MessageGreeting greeting;
  char bytes[sizeof greeting];
  const ssize_t got = stranger.stream.receive(bytes, sizeof bytes - stranger.said.size());
  if (got < 0 && is_for_now(errno)) return false;
  if (got > 0) stranger.said.append(bytes, static_cast<size_t>(got));
  if (got > 0 && stranger.said.size() < sizeof greeting) return false;
  if (got > 0) {
    const uint32_t magic = std::exchange(greeting.magic, 0);
    std::memcpy(&greeting, stranger.said.data(), sizeof greeting);
    const bool known = greeting.magic == magic && greeting.key == options_.key &&
                       greeting.rank < static_cast<uint32_t>(ranks()) && greeting.rank != static_cast<uint32_t>(rank());
    const int from = known ? static_cast<int>(greeting.rank) : rank();
    if (Incoming& in = peer(from).in; known && !in.stream.valid() && !in.over) {  // [SEAL-31]
      in.stream = std::move(stranger.stream);
      watch(in.stream.fd(), EPOLLIN, kIn + greeting.rank, true);
      signal_here(from);
      return true;
    }
  }
  forget(&stranger.stream);
  return true;
}

void TcpMessageTransport::drop_strangers(Time now) {
  while (!strangers_.empty() && now >= strangers_.front().since + kGreetingTime) {
    forget(&strangers_.front().stream);
    strangers_.pop_front();
  }
}

// The listener would stay readable meanwhile.
void TcpMessageTransport::rest(Time now) {
  rests_until_ = now + kRest;
  watch(options_.listener.get(), 0, kListening, true);
  due_ = std::min(due_.load(), rests_until_);
}

void TcpMessageTransport::end_rest() {
  rests_until_ = kNever;
  watch(options_.listener.get(), EPOLLIN, kListening, true);
  for (int to = 0; to < ranks(); ++to) {
    if (!short_[static_cast<size_t>(to)] || rests_until_ != kNever) continue;
    short_.reset(static_cast<size_t>(to));
    if (open(to)) signal_here(to);
  }
}

}  // namespace switchml
