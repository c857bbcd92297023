#include "transport/udp.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "transport/udp_path.h"
#include "transport/udp_rx.h"
#include "transport/udp_tx.h"
#include "transport/waker.h"

namespace switchml {

namespace {

class UdpTransport final : public Transport {
 public:
  UdpTransport(UdpSocket socket, const UdpOptions& options)
      : socket_(std::move(socket)),
        options_(options),
        locals_(options.local_addresses ? options.local_addresses : std::make_shared<LocalAddresses>()),
        rx_(socket_, options, locals_.get(), &socket_error_),
        tx_(socket_, options, locals_.get(), &socket_error_) {}

  bool valid() const { return waker_.valid(); }

  const char* name() const override { return "udp"; }
  TransportLimits limits() const override {
    return {options_.max_frame_bytes, socket_.receive_buffer_bytes, rx_.memory_bytes()};
  }
  Endpoint local() const override { return socket_.local; }

  size_t path_frame_bytes(const Endpoint& to) const override {
    const UdpPath path = udp_path(to);
    return path.on_host ? options_.max_frame_bytes : udp_segment_limit(path, to, options_.max_frame_bytes);
  }

  void allow_fragments(bool allowed) override {
    set_fragments(socket_, allowed);
    rx_.take_fragmented(allowed);
  }

  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }

  size_t send(const TxFrame* frames, size_t count) override { return tx_.send(frames, count); }

  size_t receive(RxFrame* frames, size_t count) override { return rx_.receive(frames, count); }
  void release() override { rx_.release(); }

  void wait(Duration timeout) override {
    if (!rx_.has_pending()) waker_.wait(socket_.fd.get(), timeout);
  }
  void pause(Duration timeout) override { waker_.wait(-1, timeout); }
  int readable() const override { return socket_.fd.get(); }
  void wake() override { waker_.wake(); }

  std::string take_error() override {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket_.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
      socket_error_.note(socket_.connected ? options_.peer : socket_.local, error);
    }
    return socket_error_.take();
  }
  bool take_refusal() override { return socket_error_.take_refusal(); }

 private:
  UdpSocket socket_;
  UdpOptions options_;
  Waker waker_;
  FrameMemory memory_;
  SocketError socket_error_;
  const std::shared_ptr<LocalAddresses> locals_;
  UdpReceiver rx_;
  UdpSender tx_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_udp_transport(const UdpOptions& options) {
  Result<UdpSocket> socket = open_udp_socket(options);
  if (!socket.ok()) return socket.status();
  auto transport = std::make_unique<UdpTransport>(std::move(socket.value()), options);
  if (!transport->valid()) {
    return Status(Code::kUnavailable, "cannot open an eventfd for UDP " + to_string(transport->local()) + ": " +
                                          std::system_category().message(errno));
  }
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace switchml
