// Sending bursts: one sendmmsg for many frames, and one message (UDP_SEGMENT) for a run of equal frames to one
// endpoint.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <vector>

#include "transport/socket_error.h"
#include "transport/udp_local.h"
#include "transport/udp_socket.h"

namespace switchml {

/// Copies nothing: the kernel gathers frames from where they lie. One thread.
class UdpSender {
 public:
  UdpSender(const UdpSocket& socket, const UdpOptions& options, const LocalAddresses* locals,
            SocketError* socket_error);

  size_t send(const TxFrame* frames, size_t count);

 private:
  static constexpr size_t kMessages = 128;  // per sendmmsg: a frame to each of kMaxWorkers is one call
  static constexpr size_t kFrames = 1024;   // per sendmmsg
  static constexpr size_t kRoutes = 128;    // a power of two, so that an index is a mask away

  struct Control {
    alignas(
        cmsghdr) uint8_t bytes[LocalAddresses::kControlBytes + CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int))];
  };
  /// How large the frames of a run to an endpoint may be.
  struct Route {
    Endpoint to;
    size_t limit = 0;
  };

  size_t pack(const TxFrame* frames, size_t count);
  size_t run_length(const TxFrame* frames, size_t count);
  size_t segment_limit(const Endpoint& to);
  void add_message(iovec* vectors, size_t count, const Endpoint* to, Ecn ecn, uint32_t segment);
  size_t write_control(const Endpoint* to, Ecn ecn, uint8_t* control) const;
  bool flush(size_t* taken);
  bool after_error(size_t index, int error, size_t* taken);
  bool send_apart(size_t index, size_t* taken);
  bool is_peer(const Endpoint* to) const;
  void refuse(const Endpoint* to, size_t bytes);
  void note_error(const msghdr& header, int error);

  const UdpSocket& socket_;
  const Endpoint peer_;
  const size_t max_frame_bytes_;
  const LocalAddresses* locals_;
  SocketError* socket_error_;
  bool gso_;
  size_t peer_limit_ = 0;
  std::array<Route, kRoutes> routes_{};
  size_t used_ = 0;  // messages built
  std::array<mmsghdr, kMessages> messages_{};
  std::array<const Endpoint*, kMessages> to_{};
  std::array<Ecn, kMessages> ecn_{};
  std::array<Control, kMessages> controls_{};
  std::array<iovec, kFrames> vectors_{};
};

}  // namespace switchml
