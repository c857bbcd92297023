#include "transport/udp_rx.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "socket/sockaddr.h"
#include "wire/packet.h"

namespace switchml {

namespace {

constexpr size_t kCoalescedBytes = 64 * 1024;
constexpr int kEcnBits = 3;  // a mask for the byte that IPv4 calls TOS and IPv6 the traffic class
/// Frames begin so far into a cache line that their payload begins with one.
constexpr size_t kLead = FrameMemory::kAlignment - wire::kHeaderBytes % FrameMemory::kAlignment;

size_t round_up(size_t bytes) {
  return (bytes + FrameMemory::kAlignment - 1) / FrameMemory::kAlignment * FrameMemory::kAlignment;
}

/// What the kernel says of a datagram.
struct Said {
  uint32_t coalesced = 0;   // bytes of the frames that it was put together from; 0: it was not
  bool fragmented = false;  // it was put together from fragments
  Ecn ecn = Ecn::kNone;
};

Said said_of(const msghdr& message) {
  Said said;
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      int bytes = 0;
      std::memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
      said.coalesced = static_cast<uint32_t>(std::max(bytes, 0));
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {  // a byte
      said.ecn = static_cast<Ecn>(*CMSG_DATA(c) & kEcnBits);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      int traffic_class = 0;
      std::memcpy(&traffic_class, CMSG_DATA(c), sizeof traffic_class);
      said.ecn = static_cast<Ecn>(traffic_class & kEcnBits);
    }
    said.fragmented |= c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVFRAGSIZE;
    said.fragmented |= c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVFRAGSIZE;
  }
  return said;
}

}  // namespace

UdpReceiver::UdpReceiver(const UdpSocket& socket, const UdpOptions& options, LocalAddresses* locals,
                         SocketError* socket_error)
    : socket_(socket),
      peer_(options.peer),
      max_frame_bytes_(options.max_frame_bytes),
      buffers_(options.receive_frames),
      locals_(locals),
      socket_error_(socket_error),
      messages_(buffers_),
      vectors_(buffers_),
      controls_(buffers_),
      from_(buffers_),
      segment_(buffers_),
      ecn_(buffers_) {
  capacity_ = socket.gro ? kCoalescedBytes : max_frame_bytes_;
  const size_t stride = round_up(kLead + capacity_);
  memory_bytes_ = stride * buffers_;
  uint8_t* base = memory_.allocate(memory_bytes_);
  for (size_t i = 0; i < buffers_; ++i) vectors_[i] = {base + i * stride + kLead, capacity_};
  prepare(0, buffers_);
}

/// The kernel overwrites the lengths; they are set again before it sees a message anew.
void UdpReceiver::prepare(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    msghdr& header = messages_[i].msg_hdr;
    header = {};
    header.msg_iov = &vectors_[i];
    header.msg_iovlen = 1;
    if (!socket_.connected) {
      header.msg_name = from_[i].bytes;
      header.msg_namelen = Endpoint::kBytes;
    }
    header.msg_control = controls_[i].bytes;
    header.msg_controllen = sizeof controls_[i].bytes;
  }
}

size_t UdpReceiver::receive(RxFrame* frames, size_t count) {
  // The second round is for a burst that held nothing but datagrams to be dropped.
  for (int round = 0; round < 2; ++round) {
    if (!has_pending()) fill(count);
    const size_t lent = lend(frames, count);
    if (lent != 0) {
      outstanding_ = true;
      return lent;
    }
    if (outstanding_ || filled_ == 0) return 0;
    recycle();
  }
  return 0;
}

/// Up to `wanted` datagrams into the buffers that are free.
void UdpReceiver::fill(size_t wanted) {
  const size_t room = std::min(buffers_ - filled_, wanted);
  if (room == 0) return;
  int got = -1;
  // A connected socket hands out a pending ICMP error first, once; the frames come after it.
  for (int attempt = 0; attempt < 3 && got < 0; ++attempt) {
    got = ::recvmmsg(socket_.fd.get(), &messages_[filled_], static_cast<unsigned>(room), MSG_DONTWAIT, nullptr);
    if (got >= 0) break;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno != EINTR) socket_error_->note(socket_.connected ? peer_ : socket_.local, errno);
  }
  if (got <= 0) return;
  const size_t begin = filled_;
  filled_ += static_cast<size_t>(got);
  for (size_t i = begin; i < filled_; ++i) take_message(i);
}

void UdpReceiver::take_message(size_t index) {
  const msghdr& header = messages_[index].msg_hdr;
  const uint32_t bytes = messages_[index].msg_len;
  const Said said = said_of(header);
  const uint32_t segment = said.coalesced != 0 ? said.coalesced : bytes;
  ecn_[index] = said.ecn;
  // A datagram without bytes carries nothing; a longer frame than agreed is foreign.
  const bool unwanted = !fragmented_ && said.fragmented;
  const bool drop = (header.msg_flags & MSG_TRUNC) != 0 || bytes == 0 || segment > max_frame_bytes_ || unwanted;
  segment_[index] = drop ? 0 : segment;
  if (socket_.connected) return;
  from_[index].size = static_cast<uint8_t>(std::min<socklen_t>(header.msg_namelen, Endpoint::kBytes));
  from_[index].via = socket_.notes_local ? locals_->learn(header) : 0;
}

size_t UdpReceiver::lend(RxFrame* frames, size_t count) {
  size_t lent = 0;
  while (lent < count && has_pending()) {
    const size_t bytes = segment_[next_] == 0 ? 0 : messages_[next_].msg_len;
    if (offset_ < bytes) {
      RxFrame& frame = frames[lent++];
      frame.data = static_cast<const uint8_t*>(vectors_[next_].iov_base) + offset_;
      frame.size = static_cast<uint32_t>(std::min<size_t>(segment_[next_], bytes - offset_));
      frame.from = socket_.connected ? peer_ : from_[next_];
      frame.ecn = ecn_[next_];
      offset_ += frame.size;
    }
    if (offset_ >= bytes) {
      ++next_;
      offset_ = 0;
    }
  }
  return lent;
}

void UdpReceiver::release() {
  outstanding_ = false;
  if (!has_pending()) recycle();
}

void UdpReceiver::recycle() {
  prepare(0, filled_);
  filled_ = 0;
  next_ = 0;
}

}  // namespace switchml
