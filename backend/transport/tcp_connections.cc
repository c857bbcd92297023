#include "transport/tcp_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr size_t kEvents = 64;
constexpr int kAccepts = 64;  // at once: a crowd of strangers must not hold up members
constexpr Duration kListenerRest = milliseconds(100);
constexpr uint32_t kEnds = EPOLLRDHUP | EPOLLERR | EPOLLHUP;
constexpr uint32_t kAlways = EPOLLIN | EPOLLRDHUP;
constexpr size_t kFramesInPiece = 4;
constexpr size_t kSpareBuffers = 8;
constexpr size_t kWorthWaitingFor = 2048;  // bytes: more than a packet of Ethernet
constexpr Duration kLookInterval = seconds(1);
constexpr Duration kStallInterval = milliseconds(250);
constexpr Duration kFirstBackoff = milliseconds(10);

size_t buffer_bytes(const TcpOptions& options) {
  return kFramesInPiece * (options.max_frame_bytes + kStreamPrefixBytes);
}

Duration look_interval(const TcpOptions& options) {
  return options.patience == Duration::zero() ? kLookInterval : std::min(kLookInterval, options.patience / 8);
}

TcpSender sender(const TcpOptions& options) {
  const size_t frame_bytes = options.max_frame_bytes + kStreamPrefixBytes;
  return TcpSender(options.queue_bytes != 0 ? options.queue_bytes : frame_bytes, frame_bytes,
                   options.all_queues_bytes != 0 ? options.all_queues_bytes : SIZE_MAX);
}

}  // namespace

TcpConnections::TcpConnections(Fd listener, const TcpOptions& options, SocketError* socket_error)
    : options_(options),
      socket_error_(socket_error),
      counters_(options.counters ? options.counters : std::make_shared<TcpCounters>()),
      listener_(std::move(listener)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      buffers_(buffer_bytes(options), options.max_connections + kSpareBuffers),
      sender_(sender(options)),
      interval_(look_interval(options)),
      stall_interval_(std::min(kStallInterval, options.stall / 4)) {
  if (!valid() || !listener_.valid()) return;
  epoll_event event{EPOLLIN, {nullptr}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) epoll_ = Fd();
}

/// What was taken gets a last chance, and peers see the end though a child has the sockets. A child itself, which has a
/// copy of all of this, leaves them to its parent.
TcpConnections::~TcpConnections() {
  if (::getpid() != owner_) return;
  for (auto& [peer, connection] : table_) {
    if (connection->queue.size() != 0) send(connection.get(), nullptr);
    if (connection->is_open()) end_tcp(std::move(connection->fd));
  }
}

TcpConnection* TcpConnections::reach(const Endpoint& to) {  // [TCP-4]
  auto found = table_.find(to);
  if (found == table_.end()) {
    if (to.carrier != Carrier::kTcp || family_of(to) == AF_UNSPEC || !make_room(to)) return nullptr;
    found = table_.emplace(to, std::make_unique<TcpConnection>(to, options_.max_frame_bytes)).first;
  }
  TcpConnection* connection = found->second.get();
  if (!connection->is_open()) connect(connection);
  return connection;
}

void TcpConnections::connect(TcpConnection* connection) {
  const Time now = monotonic_now();
  if (now < connection->next_attempt) return;
  connection->backoff = std::min(std::max(2 * connection->backoff, kFirstBackoff), options_.max_backoff);
  connection->attempted = now;
  connection->next_attempt = now + connection->backoff;
  int error = 0;
  connection->fd = connect_tcp(options_, connection->peer, &connection->source, &error);
  if (!connection->is_open()) {
    socket_error_->note(connection->peer, error);
    return;
  }
  connection->connecting = true;
  enlist(connection);
}

/// Makes the kernel watch a connection that is new.
void TcpConnections::enlist(TcpConnection* connection) {
  connection->watched = connection->connecting;
  if (connection->watched) ++watched_;
  epoll_event event{kAlways | (connection->watched ? EPOLLOUT : 0U), {connection}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) lose(connection, errno);
}

size_t TcpConnections::send(TcpConnection* connection, const TxFrame* frames) {
  std::vector<uint32_t>& burst = connection->burst;
  int error = 0;
  size_t taken = 0;
  if (connection->is_open()) taken = sender_.send(connection->fd.get(), &connection->queue, frames, burst, &error);
  const size_t refused = taken < burst.size() ? burst[taken] : SIZE_MAX;
  burst.clear();
  if (!connection->is_open()) return refused;  // it had to make room for another one
  if (error != 0) {                            // reading finds what had come before, and then that nothing more comes
    sender_.discard(&connection->queue);
    if (!connection->is_accepted()) socket_error_->note(connection->peer, error);
  }
  note_unacked(connection);
  watch(connection);
  return refused;
}

/// The kernel says when a connection can be written only while there is something to write.
void TcpConnections::watch(TcpConnection* connection) {
  const bool wanted = connection->connecting || connection->queue.size() != 0;
  if (wanted == connection->watched) return;
  connection->watched = wanted;
  watched_ += wanted ? size_t{1} : SIZE_MAX;
  epoll_event event{kAlways | (wanted ? EPOLLOUT : 0U), {connection}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection->fd.get(), &event);
}

void TcpConnections::service() {
  gone_.clear();
  const Time now = monotonic_now();
  if (listener_rests_until_ != kNever && now >= listener_rests_until_) rest_listener(false);
  std::array<epoll_event, kEvents> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      accept_some();
    } else {
      on_event(static_cast<TcpConnection*>(events[i].data.ptr), events[i].events);
    }
  }
  if (unacked_ != 0 && now - stalls_looked_ >= stall_interval_) look_for_stalls(now);
  if (now - looked_ >= interval_) check_all(now);
}

/// Something was sent, or is queued.
void TcpConnections::note_unacked(TcpConnection* connection) {
  if (options_.stall == Duration::zero() || connection->is_accepted() || connection->connecting) return;
  if (connection->unacked_since != kNever) return;
  connection->unacked_since = monotonic_now();
  ++unacked_;
}

void TcpConnections::forget_unacked(TcpConnection* connection) {
  if (std::exchange(connection->unacked_since, kNever) != kNever) --unacked_;
}

/// Where something is unacknowledged each time, an acknowledgement between two looks is younger than the first of them.
/// If that was long ago, one cannot tell what is unacknowledged since then from what was sent just now.
void TcpConnections::look_for_stalls(Time now) {
  const bool anew = now - stalls_looked_ > 2 * stall_interval_;
  stalls_looked_ = now;
  for (const auto& [peer, connection] : table_) {
    if (connection->unacked_since == kNever) continue;
    if (anew) connection->unacked_since = now;
    close_if_stalled(connection.get(), now);
  }
}

void TcpConnections::close_if_stalled(TcpConnection* connection, Time now) {
  const Duration silent = unacknowledged_for(connection->fd.get());
  if (silent != Duration::zero()) {
    if (std::min(silent, now - connection->unacked_since) >= options_.stall) lose(connection, ETIMEDOUT);
  } else if (connection->queue.size() != 0) {
    connection->unacked_since = now;  // the peer says that it has no room
  } else {
    forget_unacked(connection);
  }
}

/// Where the owner has not asked for so long, frames may have come meanwhile: that time is no peer's fault.
void TcpConnections::check_all(Time now) {
  const bool knows = ready_.empty() || std::exchange(was_asked_, false);
  const Duration passed = knows ? std::min(now - looked_, 2 * interval_) : Duration::zero();
  looked_ = now;
  buffers_.trim();
  if (options_.patience == Duration::zero() || !has_begun()) return;
  const TcpSilence::List& accepted = silence_.all();
  for (auto next = accepted.begin(); next != accepted.end();) close_if_stuck(*next++, passed);
}

void TcpConnections::close_if_stuck(TcpConnection* connection, Duration passed) {
  const bool cut = connection->buffer != nullptr && !connection->in.has_next();
  const Duration reading = connection->reading.note(cut, connection->frame_steps, passed);
  const SendQueue& queue = connection->queue;
  const Duration writing = connection->writing.note(queue.size() != 0, queue.steps(), passed);
  if (std::max(reading, writing) < options_.patience) return;
  counters_->stuck.fetch_add(1, std::memory_order_relaxed);
  socket_error_->note(connection->peer, reading >= options_.patience
                                            ? "did not complete a frame; its connection was closed"
                                            : "takes no frames; its connection was closed");
  close(connection, true);
}

Duration TcpConnections::patience(Duration timeout) const {
  const Time now = monotonic_now();
  if (listener_rests_until_ != kNever) timeout = std::min(timeout, listener_rests_until_ - now);
  if (has_begun() || buffers_.can_trim()) timeout = std::min(timeout, looked_ + interval_ - now);
  if (unacked_ != 0) timeout = std::min(timeout, stalls_looked_ + stall_interval_ - now);
  return std::max(timeout, Duration::zero());
}

void TcpConnections::on_event(TcpConnection* connection, uint32_t events) {
  if (!connection->is_open()) return;  // closed since the kernel spoke
  int error = 0;
  if (connection->connecting) {
    error = (events & (EPOLLERR | EPOLLHUP)) != 0 ? take_socket_error(connection->fd.get()) : 0;
    if (error != 0) {
      lose(connection, error);
      return;
    }
    connection->connecting = false;
  }
  // The frames that were read before the end are lent first.
  if ((events & kEnds) != 0 && !connection->in.has_next() && is_over(connection->fd.get(), &error)) {
    lose(connection, error);
    return;
  }
  if ((events & EPOLLOUT) != 0) send(connection, nullptr);
  if ((events & ~uint32_t{EPOLLOUT}) != 0) note_ready(connection);
}

void TcpConnections::note_ready(TcpConnection* connection) {
  if (connection->ready) return;
  connection->ready = true;
  ready_.push_back(connection);
}

TcpConnection* TcpConnections::next_ready() {
  if (ready_.empty()) return nullptr;
  TcpConnection* connection = ready_.front();
  ready_.pop_front();
  was_asked_ = true;
  connection->ready = false;
  return connection;
}

bool TcpConnections::read(TcpConnection* connection) {
  StreamFrames& in = connection->in;
  if (in.needs_room()) {
    ReceiveBuffer* buffer = buffers_.take();
    if (buffer == nullptr) return false;
    in.use(buffer->data, buffers_.buffer_bytes());
    if (connection->buffer != nullptr) buffers_.give_back(connection->buffer);
    if (connection->buffer == nullptr) ++holding_;
    connection->buffer = buffer;
  }
  const bool begins = in.is_empty();
  const ssize_t got = ::recv(connection->fd.get(), in.end(), in.worth_reading(), MSG_DONTWAIT);
  if (got > 0) {
    in.feed(static_cast<size_t>(got));
    if (begins) ++connection->frame_steps;
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    lose(connection, got == 0 ? 0 : errno);
  } else {
    after_reading(connection);
  }
  return false;
}

void TcpConnections::after_reading(TcpConnection* connection) {
  if (connection->in.broken()) {  // [TCP-3]
    counters_->broken.fetch_add(1, std::memory_order_relaxed);
    socket_error_->note(connection->peer, "sent what is no frame of up to " + std::to_string(options_.max_frame_bytes) +
                                              " bytes; its connection was closed");
    close(connection, true);
    return;
  }
  if (connection->in.is_empty()) drop_buffer(connection);
  await(connection, connection->in.missing());
}

/// The kernel wakes no thread for less than what completes a frame, except when it has no more room.
void TcpConnections::await(TcpConnection* connection, size_t bytes) {
  if (bytes < kWorthWaitingFor) bytes = 1;
  if (bytes == connection->awaited) return;
  connection->awaited = bytes;
  const int value = static_cast<int>(bytes);
  ::setsockopt(connection->fd.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
}

void TcpConnections::drop_buffer(TcpConnection* connection) {
  if (connection->buffer != nullptr) {
    buffers_.give_back(std::exchange(connection->buffer, nullptr));
    --holding_;
  }
  connection->in.drop_room();
}

/// The peer has closed (no error), or cannot be reached any more.
void TcpConnections::lose(TcpConnection* connection, int error) {
  if (!connection->is_accepted()) {
    if (error != 0) {
      socket_error_->note(connection->peer, error);
    } else {
      socket_error_->note(connection->peer, "closed the connection");
    }
    const Time now = monotonic_now();
    if (now - connection->attempted > options_.max_backoff) {  // it held: begin anew
      connection->backoff = Duration::zero();
      connection->next_attempt = now;
    }
  }
  // A reset leaves nothing behind that would keep the next attempt from the same port.
  close(connection, !connection->is_accepted());
}

void TcpConnections::close(TcpConnection* connection, bool reset) {
  if (connection->ready) ready_.erase(std::find(ready_.begin(), ready_.end(), connection));
  if (connection->watched) --watched_;
  forget_unacked(connection);
  drop_buffer(connection);
  connection->in = StreamFrames(options_.max_frame_bytes);
  sender_.discard(&connection->queue);
  connection->ready = connection->watched = connection->connecting = false;
  connection->awaited = 1;
  // If a child has the socket, the kernel goes on reporting it after the descriptor is closed.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->fd.get(), nullptr);
  if (reset) {
    reset_tcp(std::move(connection->fd));
  } else {
    end_tcp(std::move(connection->fd));
  }
  connection->fd = Fd();
  if (connection->is_accepted()) forget(connection);
}

void TcpConnections::forget(TcpConnection* connection) {
  const auto found = table_.find(connection->peer);
  if (connection->is_accepted()) silence_.remove(connection->place);
  gone_.push_back(std::move(found->second));
  table_.erase(found);
}

// ---- accepting, and making room ----

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
