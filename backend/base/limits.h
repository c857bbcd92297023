// The bounds that several folders share; each relation between bounds is asserted where it matters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

// ---- participants ----
/// Workers of one job: ranks, or hosts of several ranks. The worker field has 8 bits and 255 addresses all of them;
/// non-finite values are counted in 10-bit fields (1,023), which is more.
inline constexpr int kMaxWorkers = 128;       // [BASE-3]
inline constexpr uint8_t kAllWorkers = 0xff;  // [PKT-7]
static_assert(kMaxWorkers < kAllWorkers);
/// Ranks of one group on one host. What adds the terms of workers adds theirs, too.
inline constexpr int kMaxHostRanks = kMaxWorkers;
/// Ranks of one group on all its hosts. With so many the words of an int64 still add up (WORD-6): 22 bits and 10.
inline constexpr int kMaxRanks = 1024;
static_assert(kMaxRanks <= kMaxWorkers * kMaxHostRanks);
/// The largest divisor in a header of an exact session. With more ranks hosts divide, or partial sums have it.
inline constexpr uint32_t kMaxHeaderDivisor = 128;  // [EXACT-8, ELANE-8, PART-3]
static_assert(kMaxHeaderDivisor >= kMaxWorkers);
/// Least slots of a shard with two streams, in integer and in exact sessions; with fewer it has one stream.
inline constexpr int kLeastSlotsForBulk = 64;  // [LANE-4]
inline constexpr int kLeastExactForBulk = 16;
/// Largest weight of one of a group's sessions.
inline constexpr uint32_t kMaxWeight = 1000;  // [SHARE-2]
/// Jobs of one switch: the job field has 8 bits, 0 is no job.
inline constexpr int kMaxJobs = 255;  // [PKT-6]
/// Engine threads of one worker, each with its own socket and slot range.
inline constexpr int kMaxShards = 16;  // [OPEN-3]

// ---- payload ----
inline constexpr size_t kWordBytes = 4;
/// One pass of a Tofino pipe: 64 words.
inline constexpr size_t kMinPayloadBytes = 256;
/// Least payload of a session with partial sums: an element of any type fits. [PART-9]
inline constexpr size_t kMinPartialSumPayload = 512;
/// Loopback carries 65,507 bytes of UDP; a multiple of 1 KiB below it, less the header.
inline constexpr size_t kMaxPayloadBytes = 63 * 1024;
/// The payload of "auto" where the path to the switch stays on this host.
inline constexpr size_t kLoopbackPayloadBytes = kMaxPayloadBytes;
static_assert(kLoopbackPayloadBytes % 1024 == 0 && kLoopbackPayloadBytes <= kMaxPayloadBytes);
/// Elements that share one exponent, where the payload holds as many (else the whole payload is one block).
inline constexpr size_t kMaxBlockElements = 256;       // [CALL-4]
inline constexpr size_t kMaxNarrowBlockElements = 64;  // Of types of 16 bits.

// ---- memory that ranks share ----
/// A rank's part of the arena, in MiB: 128 such parts are a sixteenth of a process' address space.
inline constexpr long kMaxArenaMib = 65536;

// ---- memory for tensors of accelerators ----
/// What a rank may pin for a group, in MiB.
inline constexpr long kMaxPinnedMib = 65536;

// ---- slots ----
/// Slots of one job: two lanes need at least one each; a page of a Tofino holds 128.
inline constexpr int kMinSlots = 4;
inline constexpr int kMaxSlots = 4096;  // [OPEN-3]
/// Sequence numbers: 0 is forbidden on the wire, see docs/protocol.md.
inline constexpr uint32_t kFirstSeq = 1;  // [SLOT-1]

/// Most bytes queued for a TCP connection: all slots of a shard fit.
inline constexpr size_t kStreamQueueBytes = 16 << 20;  // [OPEN-6]

// ---- exponents ----
/// Blocks with exponents in one chunk of the call lane (1 MiB of fp32 at 256 elements a block).
inline constexpr size_t kMaxSuperblockBlocks = 1024;  // [CALL-5]
/// Bits that a float32 has.
inline constexpr long kMostSignificantBits = 24;
/// Blocks that share one flag word saying "there is a NaN or Inf in here".
inline constexpr size_t kBlocksPerFlag = 16;  // [CALL-6]

// ---- bursts ----
/// Frames handed to or taken from a transport in one call.
inline constexpr size_t kBurst = 32;

}  // namespace switchml
