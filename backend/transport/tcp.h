// TCP over IPv4 or IPv6, for peers that need no datagrams: frames follow each other on connections that stay
// (transport/stream_frames.h), and the kernel cuts, repeats and paces.
//
// A connection is made by the first frame to an Endpoint with Carrier::kTcp. Frames that come over an accepted one are
// from an Endpoint with Carrier::kTcpAccepted, and answers to it take the same connection. There is one connection to
// an endpoint: a switch knows a member by its address, so a rank that wants several opens a transport for each shard. A
// connection made again after a break comes from the same port, if it can, so that the peer knows it again.
//
// While a connection lives it loses nothing that send() took, and repeats and reorders nothing. It dies with the peer's
// process, if the peer sends what is no frame, or by a bound of TcpOptions; then frames that were taken may be lost.
#pragma once

#include <atomic>
#include <memory>

#include "transport/transport.h"

namespace switchml {

/// What became of connections. Any thread may look.
struct TcpCounters {
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> evicted{0};      // closed to make room: no other one had been silent for so long
  std::atomic<uint64_t> turned_away{0};  // closed at once, because no other could make room
  std::atomic<uint64_t> broken{0};       // closed because what came was no frame
  std::atomic<uint64_t> stuck{0};        // closed because TcpOptions::patience was over
};

struct TcpOptions {
  /// Where to listen; port 0 takes a free one. An IPv6 socket takes IPv6 only. Size 0: it does not listen.
  Endpoint listen;
  bool takes_ipv4 = false;  // where that is an IPv6 address
  /// Largest frame that is ever sent or received, 1 to 2^24; longer ones are dropped, see take_error() for those sent.
  /// A peer that sends longer ones is cut off.
  size_t max_frame_bytes = (64 << 10) + 128;  // [TCP-2]
  /// Connections open at a time, 1 to 65536. One more takes the place of the accepted one that has been silent longest:
  /// since its last frame, or since it was accepted. Those that have something to be read stay, and so do those that we
  /// made: if there are no others, the new one is closed.
  size_t max_connections = 128;
  /// Accepted connections from one IP address at a time; one more takes the place of the one from there that has been
  /// silent longest. 0: max_connections. Less keeps strangers from taking the places of members elsewhere.
  size_t max_from_address = 0;
  /// Bytes of frames that are copied and kept for each connection while the kernel takes no more or has not connected;
  /// 0: those of one frame. Frames beyond are not taken.
  size_t queue_bytes = 0;
  /// Bytes that the queues of all connections hold together; 0: no bound. Beyond it a connection's queue takes what
  /// fits into the size of one of the largest frames.
  size_t all_queues_bytes = 64 << 20;
  /// Kernel buffers; 0: the kernel chooses, and lets them grow. A send buffer of 256 KiB leaves what is under way in
  /// the cache: within a host a byte costs a third of the processor time then, but twice that is all that is sent in a
  /// round trip.
  size_t receive_buffer_bytes = 0;
  size_t send_buffer_bytes = 0;
  /// An accepted connection is closed if for so long it has taken no byte of its queue, or has not completed a frame
  /// that it has begun. Looked at once a second, or more often if this is less than 8 s; 0: never closed for it.
  Duration patience = seconds(30);
  /// A connection that we made is closed if for so long the peer's kernel has acknowledged nothing of what was sent,
  /// and is made again by the next frame, as after any break: what was queued is lost. Before Linux 6.15 the kernel
  /// notices the end of an outage only as long after it as it has lasted. Looked at every 250 ms, or more often if this
  /// is less than 1 s; shorter than a round trip it breaks what works. 0: never closed for it.
  Duration stall{};
  /// The time between attempts to connect doubles up to this.
  Duration max_backoff = seconds(1);
  std::shared_ptr<TcpCounters> counters;  // may be null
};

/// An error names the address and what the kernel said: kInvalidArgument for options out of range, kUnavailable for
/// what the host refuses.
///
/// send() takes the frames to each endpoint in order until one is not taken; a full connection does not hold up others:
/// frames behind the number returned may have left, to other endpoints. Frames without a connection, and
/// empty ones, count as taken and are lost. limits().held_bytes is what receiving takes now: 4 of the largest frames
/// for each connection over which a part of one has come, and for a few more; what a crowd needed is given back.
Result<std::unique_ptr<Transport>> make_tcp_transport(const TcpOptions& options);

}  // namespace switchml
