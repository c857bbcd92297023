// How TcpConnections accepts connections, and makes room for one more.
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/tcp_connections.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr int kAccepts = 64;  // at once: a crowd of strangers must not hold up members
constexpr Duration kListenerRest = milliseconds(100);

}  // namespace

void TcpConnections::accept_some() {
  for (int i = 0; i < kAccepts; ++i) {
    Endpoint from;
    Fd fd = accept_tcp(listener_.get(), &from);
    if (fd.valid()) {
      if (!admit(std::move(fd), from)) return;  // older connections are read first, and may not have to make room then
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (!is_shortage(error)) continue;  // it is the peer's trouble
    if (i > 0) return;                  // there may be no further one: the shortage is said first
    socket_error_->note(with_carrier(local_endpoint(listener_.get()), Carrier::kTcp), error);
    if (!evict(silence_.all())) rest_listener(true);
    return;
  }
}

/// False: another had to make room, or it was turned away.
bool TcpConnections::admit(Fd fd, const Endpoint& from) {
  // The kernel gives a pair of addresses a second time when the first connection is over, which we have not heard yet.
  if (const auto before = table_.find(from); before != table_.end()) close(before->second.get(), false);
  const Endpoint host = with_port(from, 0);
  const size_t open = table_.size();
  if (from.size == 0 || !make_room_at(host, from) || !make_room(from)) {
    counters_->turned_away.fetch_add(1, std::memory_order_relaxed);
    reset_tcp(std::move(fd));
    return false;
  }
  const bool had_room = table_.size() == open;
  counters_->accepted.fetch_add(1, std::memory_order_relaxed);
  auto& place = table_[from] = std::make_unique<TcpConnection>(from, options_.max_frame_bytes);
  TcpConnection* const connection = place.get();
  connection->fd = std::move(fd);
  connection->place = silence_.add(connection, host);
  enlist(connection);
  if (connection->is_open()) note_ready(connection);  // a peer that connects has something to send
  return had_room;
}

/// Room for one more from an address.
bool TcpConnections::make_room_at(const Endpoint& host, const Endpoint& newcomer) {
  const TcpSilence::List& neighbours = silence_.of(host);
  if (options_.max_from_address == 0 || neighbours.size() < options_.max_from_address || evict(neighbours)) return true;
  socket_error_->note(newcomer, "no connection, for there are " + std::to_string(neighbours.size()) + " from there");
  return false;
}

/// Room for one more in the table.
bool TcpConnections::make_room(const Endpoint& newcomer) {
  if (table_.size() < options_.max_connections || evict(silence_.all()) || forget_unreachable()) return true;
  socket_error_->note(newcomer, "no connection, for there are " + std::to_string(table_.size()) + " already");
  return false;
}

/// Closes the one that has been silent longest, of those that have nothing to say now.
bool TcpConnections::evict(const TcpSilence::List& from) {
  const auto silent = std::find_if(from.begin(), from.end(), [](const TcpConnection* connection) {
    return !connection->ready && !connection->in.has_next();
  });
  if (silent == from.end()) return false;
  counters_->evicted.fetch_add(1, std::memory_order_relaxed);
  close(*silent, true);
  return true;
}

/// An endpoint that we are not connected to costs no more than that the next attempt is not put off.
bool TcpConnections::forget_unreachable() {
  for (const auto& [peer, connection] : table_) {
    if (connection->is_open()) continue;
    forget(connection.get());
    return true;
  }
  return false;
}

void TcpConnections::rest_listener(bool rest) {
  listener_rests_until_ = rest ? monotonic_now() + kListenerRest : kNever;
  epoll_event event{rest ? 0U : EPOLLIN, {nullptr}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

}  // namespace switchml
