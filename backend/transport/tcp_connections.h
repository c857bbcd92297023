// The connections of a TCP transport: making, accepting, finding and closing them, and asking the kernel which of them
// can be read or written.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "socket/fd.h"
#include "transport/receive_buffers.h"
#include "transport/socket_error.h"
#include "transport/tcp.h"
#include "transport/tcp_silence.h"
#include "transport/tcp_tx.h"

namespace switchml {

/// Measures for how long something that was begun has made no step.
class Standstill {
 public:
  /// `steps` grows with each one and when something is begun; `passed` since the last call.
  Duration note(bool begun, uint64_t steps, Duration passed) {
    stands_ = begun && steps == steps_ ? stands_ + passed : Duration::zero();
    steps_ = steps;
    return stands_;
  }

 private:
  uint64_t steps_ = 0;
  Duration stands_{};
};

struct TcpConnection;
using TcpSilence = SilenceOrder<TcpConnection>;

struct TcpConnection {
  explicit TcpConnection(const Endpoint& to, size_t max_frame_bytes) : peer(to), in(max_frame_bytes) {}
  bool is_open() const { return fd.valid(); }
  bool is_accepted() const { return peer.carrier == Carrier::kTcpAccepted; }

  Endpoint peer;
  bool connecting = false;  // the peer has not answered yet
  bool ready = false;       // waits in next_ready()'s queue
  bool watched = false;     // the kernel is to say when it can be written
  Endpoint source;          // where we connect from; size 0: not yet known
  Fd fd;
  StreamFrames in;
  ReceiveBuffer* buffer = nullptr;  // the room of `in`
  SendQueue queue;
  size_t awaited = 1;           // bytes from which on the kernel says that it can be read
  std::vector<uint32_t> burst;  // frames of the send() under way
  TcpSilence::Place place;      // accepted connections only
  uint64_t frame_steps = 0;     // frames that were begun or completed
  Standstill reading, writing;
  Time unacked_since = kNever;  // something may be unacknowledged; ours only, with a stall; kNever: there is not
  Time attempted{};             // when we last began to connect
  Time next_attempt{};
  Duration backoff{};
};

/// A pointer to a connection holds until the next service() or read(). One thread.
class TcpConnections {
 public:
  /// `listener` may be none. Borrows what it gets pointers to.
  TcpConnections(Fd listener, const TcpOptions& options, SocketError* socket_error);
  ~TcpConnections();
  /// False, and errno set: the system has no descriptor left.
  bool valid() const { return epoll_.valid(); }
  /// Becomes readable when service() is due.
  int epoll() const { return epoll_.get(); }
  size_t memory_bytes() const { return buffers_.memory_bytes(); }
  ReceiveBufferPool& buffers() { return buffers_; }

  /// The connection to `to`, which is made if need be, and may not be open yet; null: there can be none.
  TcpConnection* reach(const Endpoint& to);
  /// Sends what `connection->burst` names, and empties it. Returns the first of these that was not taken; SIZE_MAX:
  /// none.
  size_t send(TcpConnection* connection, const TxFrame* frames);

  /// Hears from the kernel, without waiting: accepts, sends what was queued, and finds out which can be read.
  void service();
  /// Puts it at the end of next_ready()'s queue: it can be read, or its `in` has frames left.
  void note_ready(TcpConnection* connection);
  /// The next of those that can be read, or have frames that were read before; null: service() must find more.
  TcpConnection* next_ready();
  bool has_ready() const { return !ready_.empty(); }
  /// Reads once. False: no byte came, and the connection may be gone.
  bool read(TcpConnection* connection);
  /// A frame has come over it.
  void heard(TcpConnection* connection) {
    ++connection->frame_steps;
    if (connection->is_accepted()) silence_.heard(connection->place);
  }
  /// Call it when `connection->in` has no frame left.
  void after_reading(TcpConnection* connection);
  /// `timeout`, or how long service() may be put off if that is less.
  Duration patience(Duration timeout) const;
  /// service() has something to write, or to connect.
  bool is_writing() const { return watched_ != 0; }

 private:
  using Table = std::unordered_map<Endpoint, std::unique_ptr<TcpConnection>, EndpointHash>;

  void connect(TcpConnection* connection);
  void enlist(TcpConnection* connection);
  void watch(TcpConnection* connection);
  void on_event(TcpConnection* connection, uint32_t events);
  void drop_buffer(TcpConnection* connection);
  void await(TcpConnection* connection, size_t bytes);
  void lose(TcpConnection* connection, int error);
  void close(TcpConnection* connection, bool reset);
  void forget(TcpConnection* connection);

  void note_unacked(TcpConnection* connection);
  void forget_unacked(TcpConnection* connection);
  void look_for_stalls(Time now);
  void close_if_stalled(TcpConnection* connection, Time now);
  void check_all(Time now);
  void close_if_stuck(TcpConnection* connection, Duration passed);
  bool has_begun() const { return !silence_.all().empty() && watched_ + holding_ != 0; }

  void accept_some();
  bool admit(Fd fd, const Endpoint& from);
  bool make_room(const Endpoint& newcomer);
  bool make_room_at(const Endpoint& host, const Endpoint& newcomer);
  bool evict(const TcpSilence::List& from);
  bool forget_unreachable();
  void rest_listener(bool rest);

  const TcpOptions options_;
  const pid_t owner_ = ::getpid();  // a forked child is another one
  SocketError* socket_error_;
  std::shared_ptr<TcpCounters> counters_;
  Fd listener_;
  Fd epoll_;
  Time listener_rests_until_ = kNever;  // kNever: it does not rest
  ReceiveBufferPool buffers_;
  TcpSender sender_;
  Table table_;
  TcpSilence silence_;                                // accepted connections only
  std::vector<std::unique_ptr<TcpConnection>> gone_;  // events that name them may be under way
  std::deque<TcpConnection*> ready_;
  size_t watched_ = 0;  // connections that are
  size_t holding_ = 0;  // connections that have a buffer
  const Duration interval_;
  Time looked_ = monotonic_now();  // around
  size_t unacked_ = 0;             // connections with an unacked_since
  const Duration stall_interval_;
  Time stalls_looked_ = looked_;
  bool was_asked_ = false;  // next_ready() has given one since then
};

}  // namespace switchml
