#include "transport/udp_tx.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "socket/endpoint_hash.h"
#include "socket/sockaddr.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

constexpr size_t kMaxSegments = 64;  // one UDP_SEGMENT message takes so many, in every kernel that has it

/// The kernel's buffers are full; trying again at once is no use.
bool is_full(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM; }

iovec vector_of(const uint8_t* data, size_t size) { return {const_cast<uint8_t*>(data), size}; }

}  // namespace

UdpSender::UdpSender(const UdpSocket& socket, const UdpOptions& options, const LocalAddresses* locals,
                     SocketError* socket_error)
    : socket_(socket),
      peer_(options.peer),
      max_frame_bytes_(options.max_frame_bytes),
      locals_(locals),
      socket_error_(socket_error),
      gso_(socket.gso) {
  static_assert(kMessages >= static_cast<size_t>(kMaxWorkers));
  static_assert(kFrames >= kMaxSegments);
  if (socket.connected && gso_) peer_limit_ = udp_segment_limit(udp_path(peer_), peer_, max_frame_bytes_);
}

size_t UdpSender::send(const TxFrame* frames, size_t count) {
  size_t taken = 0;
  while (taken < count) {
    if (frames[taken].size > max_frame_bytes_) {
      refuse(frames[taken].to, frames[taken].size);
      ++taken;
      continue;
    }
    const size_t packed = pack(frames + taken, count - taken);
    const size_t before = taken;
    if (!flush(&taken) || taken != before + packed) break;
  }
  return taken;
}

/// Builds messages of the first frames; returns of how many. At least one fits.
size_t UdpSender::pack(const TxFrame* frames, size_t count) {
  used_ = 0;
  size_t packed = 0;
  while (packed < count && used_ < kMessages && packed < kFrames) {
    const TxFrame& first = frames[packed];
    if (first.size > max_frame_bytes_) break;
    const size_t run = run_length(&first, std::min(count, kFrames) - packed);
    for (size_t i = 0; i < run; ++i) vectors_[packed + i] = vector_of(frames[packed + i].data, frames[packed + i].size);
    add_message(&vectors_[packed], run, first.to, first.ecn, run > 1 ? first.size : 0);
    packed += run;
  }
  return packed;
}

/// How many of the frames, at least one, can leave as segments of one message: equal sizes, the last one may be
/// shorter.
size_t UdpSender::run_length(const TxFrame* frames, size_t count) {
  const TxFrame& first = frames[0];
  if (!gso_ || count < 2 || first.size == 0 || first.size > kMaxUdpFrame / 2) return 1;
  const size_t most = std::min({count, kMaxSegments, kMaxUdpFrame / first.size + 1});
  size_t run = 1;
  size_t total = first.size;
  while (run < most) {
    const TxFrame& next = frames[run];
    total += next.size;
    if (next.size == 0 || next.size > first.size || total > kMaxUdpFrame || next.ecn != first.ecn) break;
    if (next.to != first.to && (next.to == nullptr || first.to == nullptr || *next.to != *first.to)) break;
    ++run;
    if (next.size < first.size) break;
  }
  // Asked last: the answer may have to be looked up.
  return run > 1 && first.size > segment_limit(is_peer(first.to) ? peer_ : *first.to) ? 1 : run;
}

size_t UdpSender::segment_limit(const Endpoint& to) {
  if (socket_.connected && to == peer_) return peer_limit_;
  const size_t hash = EndpointHash()(to);
  Route& route = routes_[(hash ^ (hash >> 32)) & (kRoutes - 1)];
  if (route.to != to) route = {to, udp_segment_limit(udp_path(to), to, max_frame_bytes_)};
  return route.limit;
}

/// Whether `to` is the peer of a connected socket: its frames need no address.
bool UdpSender::is_peer(const Endpoint* to) const { return to == nullptr || (socket_.connected && *to == peer_); }

/// All but the segments' size. Returns its length.
size_t UdpSender::write_control(const Endpoint* to, Ecn ecn, uint8_t* control) const {
  const size_t length = to != nullptr && to->via != 0 ? locals_->write_control(to->via, control) : 0;
  if (ecn == Ecn::kNone) return length;
  const bool six = socket_.family == AF_INET6;
  return length + write_control_message(six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS,
                                        static_cast<int>(ecn), control + length);
}

void UdpSender::add_message(iovec* vectors, size_t count, const Endpoint* to, Ecn ecn, uint32_t segment) {
  msghdr& header = messages_[used_].msg_hdr;
  header = {};
  header.msg_iov = vectors;
  header.msg_iovlen = count;
  to_[used_] = to;
  ecn_[used_] = ecn;
  if (!is_peer(to)) {
    header.msg_name = const_cast<uint8_t*>(to->bytes);
    header.msg_namelen = to->size;
  }
  uint8_t* control = controls_[used_].bytes;
  size_t length = write_control(to, ecn, control);
  if (segment != 0) {
    length += write_control_message(IPPROTO_UDP, UDP_SEGMENT, static_cast<uint16_t>(segment), control + length);
  }
  if (length != 0) {
    header.msg_control = control;
    header.msg_controllen = length;
  }
  ++used_;
}

/// Sends the messages built. Adds the frames that were taken to `taken`; false if the kernel takes no more for now.
bool UdpSender::flush(size_t* taken) {
  size_t refused = kMessages;
  size_t index = 0;
  while (index < used_) {
    const int sent =
        ::sendmmsg(socket_.fd.get(), &messages_[index], static_cast<unsigned>(used_ - index), MSG_DONTWAIT);
    if (sent > 0) {
      for (int i = 0; i < sent; ++i) *taken += messages_[index++].msg_hdr.msg_iovlen;
      continue;
    }
    const int error = sent < 0 ? errno : EAGAIN;
    if (error == EINTR) continue;
    if (is_full(error)) return false;
    if ((error == ECONNREFUSED || error == EMSGSIZE) && refused != index) {
      // The ICMP error of an earlier frame, reported once: this message was not tried yet.
      note_error(messages_[index].msg_hdr, error);
      refused = index;
      continue;
    }
    if (!after_error(index, error, taken)) return false;
    ++index;
  }
  return true;
}

/// The kernel refused message `index`. A frame that cannot go counts as taken, and lost; the ones behind it still go.
bool UdpSender::after_error(size_t index, int error, size_t* taken) {
  const msghdr& header = messages_[index].msg_hdr;
  if (header.msg_iovlen > 1 && error != ECONNREFUSED) return send_apart(index, taken);
  note_error(header, error);
  *taken += header.msg_iovlen;
  return true;
}

/// The frames of a run, each in a message of its own. If they can go so and not together, segmentation is to blame and
/// is left off from then on.
bool UdpSender::send_apart(size_t index, size_t* taken) {
  const msghdr together = messages_[index].msg_hdr;
  const Endpoint* to = to_[index];
  Control control;
  for (size_t i = 0; i < together.msg_iovlen; ++i) {
    msghdr single = together;
    single.msg_iov = together.msg_iov + i;
    single.msg_iovlen = 1;
    const size_t length = write_control(to, ecn_[index], control.bytes);
    single.msg_control = length != 0 ? control.bytes : nullptr;
    single.msg_controllen = length;
    if (::sendmsg(socket_.fd.get(), &single, MSG_DONTWAIT) >= 0) {
      gso_ = false;
    } else if (is_full(errno)) {
      return false;
    } else {
      note_error(together, errno);
    }
    *taken += 1;
  }
  return true;
}

void UdpSender::refuse(const Endpoint* to, size_t bytes) {
  socket_error_->note_size(is_peer(to) ? peer_ : *to, bytes, max_frame_bytes_);
}

void UdpSender::note_error(const msghdr& header, int error) {
  Endpoint to = peer_;
  if (header.msg_name != nullptr) {
    std::memcpy(to.bytes, header.msg_name, header.msg_namelen);
    to.size = static_cast<uint8_t>(header.msg_namelen);
  }
  socket_error_->note(to, error);
}

}  // namespace switchml
