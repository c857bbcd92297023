// A transport is an *unreliable* link that carries whole frames between endpoints: it may lose, repeat or reorder them,
// never cut or join them. Bursts of borrowed frames go in and out; the comment on each method says which side owns a
// frame afterwards. Reliability, ordering and sums are the engine's and the switch's business.
//
// A transport belongs to one thread, but for wake().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "socket/endpoint.h"
#include "transport/queue_pairs.h"
#include "wire/layout.h"

namespace switchml {

/// What a transport can do, known once it is open.
struct TransportLimits {
  size_t max_frame_bytes = 0;       // the largest frame that goes over any path of it
  size_t receive_buffer_bytes = 0;  // the most that is queued at the receiver (0: unbounded), as its owner accounts it
  size_t held_bytes = 0;            // memory that it holds to receive into, whatever is sent
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const char* name() const = 0;
  virtual TransportLimits limits() const = 0;
  /// Where peers reach this transport.
  virtual Endpoint local() const = 0;
  /// The largest frame that is worth sending to `to` in one piece: a path's MTU less the headers below, or
  /// max_frame_bytes on a path within this host.
  virtual size_t path_frame_bytes(const Endpoint& to) const = 0;

  /// Off: from now on frames are sent as whole packets or not at all, and of those that arrive only the ones that came
  /// whole are lent: what a link on the way cannot carry is lost in either direction, which shows what a path carries.
  /// On, which is where a transport begins: packets may be cut up on the way. A transport that never cuts frames up
  /// need not do anything.
  virtual void allow_fragments(bool /*allowed*/) {}

  /// Zeroed memory to build frames in, 64-byte aligned, alive as long as the transport. Throws std::bad_alloc; one that
  /// registers it, StatusError.
  virtual uint8_t* allocate(size_t bytes) = 0;

  /// Hands `count` frames to the network. The frames are the caller's again on return (their bytes may be changed).
  /// Returns how many were taken: frames beyond that did not leave (buffers full) and count as lost; it never blocks.
  virtual size_t send(const TxFrame* frames, size_t count) = 0;

  /// Up to `count` frames that have arrived, without waiting. They stay valid, and the transport's, until release().
  /// What stands directly above a link to the network, and nothing else, may change their bytes in place meanwhile:
  /// such a link lends memory of its own, each byte in one frame only, and does not look at it again. Without a
  /// release() in between, a later call lends further frames while the transport has buffers left, then none.
  virtual size_t receive(RxFrame* frames, size_t count) = 0;
  /// Gives all frames lent so far back.
  virtual void release() = 0;

  /// The peer is in this process: no frame is lost, and none needs a checksum.
  virtual bool is_direct() const { return false; }
  /// Frames may have a `rest` in any memory, which is the caller's again when send() returns.
  virtual bool gathers() const { return false; }
  /// The queue pairs of a transport through an RDMA card; null: peers need to know no more of it than an address.
  virtual QueuePairs* queue_pairs() { return nullptr; }

  /// Sleeps until frames are there, wake() was called, or `timeout` has passed. A spurious return is allowed.
  virtual void wait(Duration timeout) = 0;
  /// Sleeps until wake() was called or `timeout` has passed, whatever arrives. A transport may return at once.
  virtual void pause(Duration /*timeout*/) {}
  /// A descriptor that is readable while receive() may have something that the last receive() had not; -1: there is
  /// none.
  virtual int readable() const { return -1; }
  /// Frames that send() took have not all left: without a wait() they may stay.
  virtual bool is_sending() const { return false; }
  /// Ends a wait() or pause() that runs or is to come (a wake before it is not lost). From any thread.
  virtual void wake() = 0;

  /// A standing socket error of the network below ("connection refused" by a peer's host, say), empty when there is
  /// none; asking clears it.
  virtual std::string take_error() = 0;
  /// Whether a peer's host has said, as of the last take_error(), that no socket listens there; asking clears it. Other
  /// socket errors, of a network that cannot be reached, say nothing of the peer and may pass.
  virtual bool take_refusal() { return false; }
};

}  // namespace switchml
