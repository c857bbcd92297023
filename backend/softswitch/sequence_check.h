// SequenceCheck: what a packet's sequence number means to the (slot, version) it names.
//
// A worker sends use k+2 of a slot only after it has the result of k+1, which holds everybody's contribution; and
// everybody sent k+1 only after receiving k. So when k+2 arrives nobody needs k any more, and k+2 may take its place
// (same parity, same version). Use k+1 lives in the other version and is still answered. Whatever is older than the
// stored number is a delayed duplicate. Numbers are compared serially, so that the 32 bits may wrap; 0 never travels
// and marks a version that was not used yet.
#pragma once

#include <cstdint>

#include "wire/packet.h"

namespace switchml::softswitch {

/// The register pair of one (slot, version).
struct SequencePair {
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
  const uint32_t seen = pair->epoch == epoch ? pair->seq : 0;
  if (seen == seq) return Sequence::kSame;
  if (seen != 0 && !wire::newer_seq(seq, seen)) return Sequence::kStale;
  pair->epoch = epoch;
  pair->seq = seq;
  return Sequence::kNew;
}

}  // namespace switchml::softswitch
