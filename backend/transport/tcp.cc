#include "transport/tcp.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "socket/sockaddr.h"
#include "transport/frame_memory.h"
#include "transport/tcp_connections.h"
#include "transport/tcp_socket.h"
#include "transport/waker.h"

namespace switchml {

namespace {

constexpr size_t kTurnFrames = 64;  // lent of one connection before others have their turn

class TcpTransport final : public Transport {
 public:
  TcpTransport(Fd listener, const TcpOptions& options)
      : max_frame_bytes_(options.max_frame_bytes),
        local_(listener.valid() ? with_carrier(local_endpoint(listener.get()), Carrier::kTcp) : Endpoint{}),
        connections_(std::move(listener), options, &socket_error_) {}

  bool valid() const { return waker_.valid() && connections_.valid(); }

  const char* name() const override { return "tcp"; }
  TransportLimits limits() const override { return {max_frame_bytes_, 0, connections_.memory_bytes()}; }
  Endpoint local() const override { return local_; }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return max_frame_bytes_; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  bool gathers() const override { return true; }

  size_t send(const TxFrame* frames, size_t count) override;
  size_t receive(RxFrame* frames, size_t count) override;
  void release() override { connections_.buffers().release(); }

  void wait(Duration timeout) override {
    if (current_ != nullptr) return;
    if (!connections_.has_ready()) waker_.wait(connections_.epoll(), connections_.patience(timeout));
    connections_.service();
  }
  void pause(Duration timeout) override {
    // What was taken has to leave meanwhile.
    if (connections_.is_writing()) return wait(timeout);
    waker_.wait(-1, timeout);
  }
  int readable() const override { return connections_.epoll(); }
  bool is_sending() const override { return connections_.is_writing(); }
  void wake() override { waker_.wake(); }

  std::string take_error() override {
    if (current_ == nullptr) connections_.service();
    return socket_error_.take();
  }
  bool take_refusal() override { return socket_error_.take_refusal(); }

 private:
  bool can_go(const uint32_t size, const Endpoint* to);
  size_t lend(RxFrame* frames, size_t count);

  const size_t max_frame_bytes_;
  const Endpoint local_;
  Waker waker_;
  FrameMemory memory_;
  SocketError socket_error_;
  TcpConnections connections_;
  TcpConnection* current_ = nullptr;  // has frames that no receive() has lent, and its turn
  size_t turn_ = 0;                   // frames lent in it
  bool behind_ = false;               // a turn has ended before its frames: others may wait that were not asked
  std::vector<TcpConnection*> touched_;
};

/// False: trying again would not help.
bool TcpTransport::can_go(const uint32_t size, const Endpoint* to) {
  if (to != nullptr && size > max_frame_bytes_) socket_error_.note_size(*to, size, max_frame_bytes_);
  return to != nullptr && size != 0 && size <= max_frame_bytes_;
}

size_t TcpTransport::send(const TxFrame* frames, size_t count) {
  size_t refused = count;  // the first that was not taken
  const Endpoint* last = nullptr;
  TcpConnection* connection = nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (!can_go(frames[i].size + frames[i].rest_size, frames[i].to)) continue;
    if (frames[i].to != last) connection = connections_.reach(*(last = frames[i].to));
    if (connection == nullptr) continue;
    if (!connection->is_open()) {
      refused = std::min(refused, i);
      continue;
    }
    if (connection->burst.empty()) touched_.push_back(connection);
    connection->burst.push_back(static_cast<uint32_t>(i));
  }
  for (TcpConnection* const touched : touched_) refused = std::min(refused, connections_.send(touched, frames));
  touched_.clear();
  return refused;
}

size_t TcpTransport::receive(RxFrame* frames, size_t count) {
  size_t lent = 0;
  bool asked = false;
  while (lent < count) {
    if (current_ == nullptr) {
      if ((behind_ || !connections_.has_ready()) && !std::exchange(asked, true)) {
        behind_ = false;
        connections_.service();
      }
      TcpConnection* const next = connections_.next_ready();
      if (next == nullptr) break;
      if (!next->in.has_next() && !connections_.read(next)) continue;
      current_ = next;
      turn_ = 0;
    }
    lent += lend(frames + lent, count - lent);
  }
  return lent;
}

/// Lends frames of the connection that has its turn. One with frames left at the end of it has another turn later.
size_t TcpTransport::lend(RxFrame* frames, size_t count) {
  count = std::min(count, kTurnFrames - turn_);
  size_t lent = 0;
  while (lent < count && current_->in.next(&frames[lent].data, &frames[lent].size)) {
    frames[lent++].from = current_->peer;
  }
  if (lent != 0) {
    connections_.heard(current_);
    connections_.buffers().lend(current_->buffer);
  }
  turn_ += lent;
  if (!current_->in.has_next()) {
    connections_.after_reading(std::exchange(current_, nullptr));
  } else if (turn_ == kTurnFrames) {
    connections_.note_ready(std::exchange(current_, nullptr));
    behind_ = true;
  }
  return lent;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(const TcpOptions& options) {
  Status status = check_tcp_options(options);
  if (!status.ok()) return status;
  Fd listener;
  if (options.listen.size != 0) {
    Result<Fd> opened = listen_tcp(options);
    if (!opened.ok()) return opened.status();
    listener = std::move(opened.value());
  }
  auto transport = std::make_unique<TcpTransport>(std::move(listener), options);
  if (!transport->valid()) {
    return Status(Code::kUnavailable, "cannot open an epoll and an eventfd for TCP " + to_string(transport->local()) +
                                          ": " + std::system_category().message(errno));
  }
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace switchml
