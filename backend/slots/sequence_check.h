// SequenceCheck: what a packet's sequence number means to the (slot, version) it names. Use k+2 may take the place of
// k by [SLOT-13]. 0 never travels, and marks a version that was not used yet.
#pragma once

#include <cstdint>

#include "wire/packet.h"

namespace switchml {

/// The register pair of one (slot, version).
struct SequencePair {  // [SLOT-4]
  uint32_t epoch = 0;
  uint32_t seq = 0;
};

enum class Sequence {
  kNew,    // first contributor of this use: take the version over
  kSame,   // another contributor, or a duplicate
  kStale,  // older: drop
};

/// Judges and, for kNew, moves the pair on. Precondition: seq != 0.
inline Sequence check_sequence(SequencePair* pair, uint32_t epoch, uint32_t seq) {
  const uint32_t seen = pair->epoch == epoch ? pair->seq : 0;  // [SLOT-4]
  if (seen == seq) return Sequence::kSame;
  if (seen != 0 && !wire::newer_seq(seq, seen)) return Sequence::kStale;  // [SLOT-10]
  pair->epoch = epoch;
  pair->seq = seq;
  return Sequence::kNew;
}

}  // namespace switchml
