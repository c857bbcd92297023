// Frames as messages of queue pairs of a card that peers have told each other of (Transport::meet).
//
// Frames in memory of allocate() are sent from where they lie, unless they may change. All others are copied once. What
// is changed before the peer has it arrives changed or torn; nothing else is touched. A peer that answers a frame shows
// that it has arrived.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/port_wish.h"
#include "transport/transport.h"
#include "transport/udp.h"

namespace switchml {

/// If `asks` is set, requests go by UDP from a socket of its own: those to meet, and others to peers that are not met;
/// to places all. What comes back seems to come from the peer.
struct CardOptions {
  /// libibverbs, as dlopen() takes it.
  std::string library = "libibverbs.so.1";
  /// Peers know this transport by it, and its address chooses the card where `wish` does not.
  Endpoint local;
  PortWish wish;
  /// Options of that socket. Its address is `local` then, whatever that is; with `peer` unset, a peer's to find the
  /// route by.
  std::optional<UdpOptions> asks;
  Endpoint route_to;
  /// Buffers for copies. Frames that find none wait until one is free.
  int send_frames = 64;
  /// Frames that one peer may not have taken yet. What is more waits; to places, it is not sent.
  int frames_under_way = 128;
  /// Frames to one peer that wait. Results of the slots that a peer has, unless it has set SWITCHML_SLOTS high.
  size_t waiting_bytes = size_t{16} << 20;
};

struct RdmaOptions : CardOptions {
  /// Largest frame that is ever sent or received; longer ones are not sent.
  size_t max_frame_bytes = 65664;
  /// Receive buffers, of max_frame_bytes each, for all peers. A peer that finds none waits.
  int receive_frames = 256;
};

/// Reliable connected pairs, one for each peer. A card segments frames, retransmits and paces them. Opens the card.
/// kUnsupported: this build or this host has no libibverbs, or no card that can be used. kUnavailable: the system gives
/// too little. With the reason and the remedy.
Result<std::unique_ptr<Transport>> make_rdma_transport(const RdmaOptions& options);

/// An unreliable connected pair, with a single peer. Contributions and results (docs/protocol.md, [RDMA-9 to 15]) are
/// written into the peer's place for their slot and version, a packet each; requests go by UDP. A result is copied out
/// of its place before it is lent: what comes late cannot change it. Transport::expect() before they meet. Errors as of
/// the other.
Result<std::unique_ptr<Transport>> make_places_transport(const CardOptions& options);

}  // namespace switchml
