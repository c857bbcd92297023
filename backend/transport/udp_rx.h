// Receiving bursts: recvmmsg into buffers of our own, and datagrams that the kernel coalesced (UDP_GRO) cut up again.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <vector>

#include "transport/frame_memory.h"
#include "transport/socket_error.h"
#include "transport/udp_local.h"
#include "transport/udp_socket.h"

namespace switchml {

/// Holds `receive_frames` buffers: of 64 KiB with GRO, whatever the frames' size, because that is what one coalesced
/// datagram fills; of max_frame_bytes without. A datagram lies in its buffer until all its frames were lent and
/// released; a buffer is filled again only then. One thread.
class UdpReceiver {
 public:
  UdpReceiver(const UdpSocket& socket, const UdpOptions& options, LocalAddresses* locals, SocketError* socket_error);

  size_t receive(RxFrame* frames, size_t count);
  void release();
  /// Frames are here already that no receive() has lent.
  bool has_pending() const { return next_ < filled_; }
  size_t memory_bytes() const { return memory_bytes_; }
  /// Off: datagrams that came in fragments are dropped (set_fragments() makes the kernel say so). On at first.
  void take_fragmented(bool taken) { fragmented_ = taken; }

 private:
  void prepare(size_t begin, size_t end);
  void fill(size_t wanted);
  void take_message(size_t index);
  size_t lend(RxFrame* frames, size_t count);
  void recycle();

  struct Control {
    alignas(cmsghdr) uint8_t bytes[3 * CMSG_SPACE(sizeof(int)) + LocalAddresses::kControlBytes];
  };

  const UdpSocket& socket_;
  const Endpoint peer_;
  const size_t max_frame_bytes_;
  const size_t buffers_;
  LocalAddresses* locals_;
  SocketError* socket_error_;
  FrameMemory memory_;
  std::vector<mmsghdr> messages_;
  std::vector<iovec> vectors_;
  std::vector<Control> controls_;
  std::vector<Endpoint> from_;
  std::vector<uint32_t> segment_;  // bytes of each message's frames, all but the last; 0: nothing of use in it
  std::vector<Ecn> ecn_;           // each message's
  size_t capacity_ = 0;            // bytes of one buffer
  size_t memory_bytes_ = 0;        // all buffers'
  size_t filled_ = 0;              // messages [0, filled_) hold datagrams
  size_t next_ = 0;                // the first that is not wholly lent
  size_t offset_ = 0;              // and how far it is
  bool outstanding_ = false;       // frames were lent and not released
  bool fragmented_ = true;         // datagrams that came in fragments are lent
};

}  // namespace switchml
