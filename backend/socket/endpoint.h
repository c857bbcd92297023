// Endpoints, and frames that come from there or go there: what a switch and a transport have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/layout.h"

namespace switchml {

/// What carries frames to an endpoint.
enum class Carrier : uint8_t {
  kPackets,      // packets: each frame by itself
  kTcp,          // a TCP connection, made by the first that has a frame for the endpoint
  kRdma,         // a queue pair, of transports that have met (transport/transport.h)
  kPlaces,       // an unreliable queue pair, of those that have met: a frame is written into the peer's place for it
  kTcpAccepted,  // a TCP connection that the endpoint has made to us: none can be made to there
};

/// Those that have to meet a peer first.
inline bool uses_card(Carrier carrier) { return carrier == Carrier::kRdma || carrier == Carrier::kPlaces; }
/// Whether single frames may be lost on the way, or only all that a broken connection had.
inline bool may_lose_frames(Carrier carrier) { return carrier == Carrier::kPackets || carrier == Carrier::kPlaces; }

/// What a packet says of queues on its way (RFC 3168). The values are those of the IP header.
enum class Ecn : uint8_t {
  kNone = 0,     // the sender does not heed marks: full queues drop it
  kOther = 1,    // as kCapable
  kCapable = 2,  // long queues may mark it
  kMarked = 3,   // one has
};
/// The mark of a frame made of both: a mark stays, and all must heed it.
inline Ecn together(Ecn a, Ecn b) {
  if (a == Ecn::kMarked || b == Ecn::kMarked) return Ecn::kMarked;
  return a == Ecn::kNone || b == Ecn::kNone ? Ecn::kNone : Ecn::kCapable;
}

/// Where a frame goes or comes from. Plain bytes to the engine and the switch; a transport knows what they mean.
struct Endpoint {
  static constexpr size_t kBytes = 28;  // a sockaddr_in6
  uint8_t bytes[kBytes] = {};
  uint8_t size = 0;  // 0: no endpoint
  /// The transport's own note on a received frame's sender: at which of its local addresses the frame arrived, so that
  /// an answer leaves from there. Not part of the identity: == ignores it.
  uint8_t via = 0;
  Carrier carrier = Carrier::kPackets;

  friend bool operator==(const Endpoint& a, const Endpoint& b) {
    return a.size == b.size && a.carrier == b.carrier && std::memcmp(a.bytes, b.bytes, a.size) == 0;
  }
  friend bool operator!=(const Endpoint& a, const Endpoint& b) { return !(a == b); }
};

/// A frame to send. `data` lies in memory of allocate() or anywhere that stays unchanged until send() returns.
struct TxFrame {
  const uint8_t* data = nullptr;
  uint32_t size = 0;
  const Endpoint* to = nullptr;
  /// What follows `data` in the frame, if the transport gathers(), or a card reaches the peer's memory, or the tensors
  /// of this process (QueuePairs::target_of); or, with a target, what is written there before the frame arrives.
  const uint8_t* rest = nullptr;
  uint32_t rest_size = 0;
  wire::Target target = {};  // none if it has 0 bytes
  /// All of it may change as soon as send() has returned, also what lies in memory of allocate().
  bool may_change = false;
  Ecn ecn = Ecn::kNone;  // over UDP
  /// Over RDMA: it goes by UDP, beside the queue pair, as requests that are not encrypted do by themselves.
  bool beside = false;
};

/// A received frame, lent by the transport until release().
struct RxFrame {
  const uint8_t* data = nullptr;
  uint32_t size = 0;
  Endpoint from;
  Ecn ecn = Ecn::kNone;    // over UDP
  bool is_direct = false;  // It has come from this process, with no seal to be checked (transport/direct_link.h).
  bool beside = false;     // over RDMA: it came by UDP, beside the queue pair
};

}  // namespace switchml
