// A link that encrypts and authenticates frames on their way to peers that know the same key.
// docs/protocol-seal.md has the rules, backend/seal/ what follows them; this moves frames between the two.
#pragma once

#include <atomic>
#include <memory>

#include "seal/initiator.h"
#include "seal/seal_key.h"
#include "transport/transport.h"

namespace switchml {

/// Frames that a sealed link has dropped, by reason, and channels. One thread writes, any may read.
struct SealCounters {
  std::atomic<uint64_t> dropped_plain{0};     // It was not sealed.
  std::atomic<uint64_t> dropped_forged{0};    // It was changed on its way, or its end does not know the key.
  std::atomic<uint64_t> dropped_replayed{0};  // It had been opened before, or came after thousands of newer ones.
  std::atomic<uint64_t> channels{0};          // This end's greetings that were answered.
};

/// What the owner of a link is to its peers.
enum class SealEnd {
  kMember,  // It greets switches, and answers no greeting.
  kSwitch,  // It answers greetings of members, and greets a parent.
};

struct SealOptions {
  std::shared_ptr<SealCounters> counters;         // may be null
  seal::RandomBytes random;                       // empty: the system's random source
  seal::MakeAead make_aead = seal::make_aes_gcm;  // another one: for tests
  bool key_may_differ = true;                     // False: take_error() blames no key for a peer's silence.
};

/// A transport over `below`, which it owns: directly above the link to the network, and faults. It changes frames that
/// `below` has lent.
///
/// - What goes up (requests and contributions) makes a channel to its peer where there is none: until the peer has
///   answered, frames are lost but for the last few small ones, which leave then. What goes down (results and replies)
///   is lost where the peer has not made a channel.
/// - Frames are 24 bytes longer below, so limits() has that much less. It gathers(). Cards write no results into
/// tensors.
/// - Peers beyond 4096 take the place of those that have been silent longest.
/// - take_error() tells of a peer that answers no greeting.
///
/// Throws StatusError (kUnsupported) where OpenSSL lacks a cipher.
std::unique_ptr<Transport> seal_link(std::unique_ptr<Transport> below, const SealKey& key, SealEnd end,
                                     SealOptions options = {});

}  // namespace switchml
