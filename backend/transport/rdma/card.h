// What transports over a card have in common: the card, a way to wait for it, and requests by UDP beside it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "socket/fd.h"
#include "transport/frame_memory.h"
#include "transport/rdma/port.h"
#include "transport/rdma/rdma.h"
#include "transport/udp_rx.h"
#include "transport/udp_tx.h"
#include "transport/waker.h"

namespace switchml::rdma {

/// Memory of frames begins at such addresses.
inline size_t aligned(size_t bytes) {
  return (bytes + FrameMemory::kAlignment - 1) / FrameMemory::kAlignment * FrameMemory::kAlignment;
}

/// One thread, but for wake().
class Card {
 public:
  Card(const Verbs& verbs, CardOptions options) : verbs_(verbs), options_(std::move(options)) {}

  /// Errors as of make_rdma_transport().
  Status open();

  const Verbs& verbs() const { return verbs_; }
  const Port& port() const { return port_; }
  ibv_pd* domain() const { return domain_.get(); }
  ibv_comp_channel* channel() const { return channel_.get(); }
  /// Peers know it by this address. With requests it is the address of the route, and the port of their socket.
  const Endpoint& local() const { return options_.local; }
  /// A queue whose events end wait().
  Result<Owned<ibv_cq>> completions(int entries) const {
    return verbs_.completion_queue(port_.context.get(), entries, channel_.get());
  }

  // ---- requests by UDP ----
  bool asks() const { return udp_ != nullptr; }
  /// The frame is lost if there is no socket for it.
  void ask(const TxFrame& frame);
  /// What came back, as if by this carrier. Lent until release().
  size_t receive_replies(RxFrame* frames, size_t count, Carrier carrier);
  bool has_replies() { return udp_ && udp_->receiver.has_pending(); }
  void release();

  // ---- waiting ----
  /// Hears what the card has said unasked, of itself and of pairs. wait() and take_error() do so too.
  void take_events();
  /// What completes from now on ends a wait().
  void arm(ibv_cq* queue);
  void wait(Duration timeout);
  void pause(Duration timeout) { waker_.wait(-1, timeout); }
  void wake() { waker_.wake(); }

  // ---- errors ----
  /// Why it serves no longer, whatever is tried; empty: it does.
  const std::string& failed() const { return failed_; }
  void note(const Endpoint& peer, const std::string& what);
  std::string take_error();

 private:
  struct UdpSide {
    UdpSide(UdpSocket opened, const UdpOptions& options)
        : socket(std::move(opened)),
          receiver(socket, options, &locals, &error),
          sender(socket, options, &locals, &error) {}

    UdpSocket socket;
    LocalAddresses locals;
    SocketError error;
    UdpReceiver receiver;
    UdpSender sender;
  };

  Status open_udp();
  Status open_card();
  Status watch();
  void hear(const ibv_async_event& event);
  void fail(const std::string& what);

  const Verbs verbs_;
  CardOptions options_;
  Waker waker_;
  std::string error_;
  std::string failed_;
  std::unique_ptr<UdpSide> udp_;  // or null
  Fd watched_;                    // its socket and what the card tells by, to wait for
  Port port_;
  Owned<ibv_pd> domain_;
  Owned<ibv_comp_channel> channel_;
};

}  // namespace switchml::rdma
