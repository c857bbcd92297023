// What the workers of a session with a switch have agreed on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "seal/seal_key.h"
#include "transport/transport.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml {

/// Which switch a group's streams go through, of those that it may have one after the other.
struct Route {
  uint8_t job = 0;
  uint32_t epoch = 0;
  uint64_t session_key = 0;  // lets a worker join; known to the switch
  Duration lease = seconds(30);
  Duration most_silence = Duration::max();  // the switch hears a member this often, however long the lease
  Duration renewal() const { return std::min<Duration>(lease / 4, most_silence); }  // [LEASE-5]
  bool controlled = false;  // A controller answers requests: its silence says nothing about the switch.
  Endpoint switch_endpoint;
  std::optional<SealKey> seal;  // Of links to that switch; none: frames travel in the clear.
  std::string switch_name;      // Messages have it: "127.0.0.1:40000 (embedded in rank 0)".
  uint64_t tree_id = 0;         // Number of a controller's tree of switches; 0: not planned.
};

/// How a shard's slots are shared out among its lanes, which take them in this order. In an exact session data lanes
/// announce too, and there are no others.
struct LaneSlots {
  int calls = 1;       // announce collectives, agree on exponents
  int data = 1;        // elements
  int bulk_calls = 0;  // exponents of the collectives of many elements, where these have lanes of their own
  int bulk_data = 0;

  /// Divides `slots`, at least 2. If there are few, all collectives share two lanes.
  static LaneSlots of(int slots, bool exact = false) {
    if (exact) return of_exact(slots);
    if (slots < 8) return {1, slots - 1, 0, 0};  // [LANE-1]
    if (slots < kLeastSlotsForBulk) return {slots / 4, slots - slots / 4, 0, 0};
    const int part = std::min(slots / 16, 16);
    return {3 * part, part, part, slots - 5 * part};  // [LANE-1]
  }
  static LaneSlots of_exact(int slots) {
    if (slots < kLeastExactForBulk) return {0, slots, 0, 0};
    const int part = std::clamp(slots / 8, 4, 32);  // [ELANE-1]
    return {0, part, 0, slots - part};
  }
  bool has_bulk() const { return bulk_data > 0; }
};

/// What a session with a switch is, agreed by all workers before any engine starts.
struct SessionParameters : Route {
  int worker = 0;                         // this rank in its group, or its host among the hosts that the group runs on
  int workers = 1;                        // ranks in the group, or hosts
  int ranks = 0;                          // Ranks of the group; 0: as many as workers.
  bool seals_ranks = false;               // What ranks send each other is sealed, whatever the switch takes.
  std::vector<std::string> worker_names;  // Follow the word "rank" in messages; none: their numbers.
  Endpoint own_address;                   // Where other hosts of the group reach this one; port 0; empty: nowhere.
  int shards = 1;
  int slots = 8;  // Sum of all shards, a multiple of `shards`.
  size_t payload_bytes = 1024;
  /// Exact: tensors for which the payload is large travel in smaller chunks, down to so many bytes
  /// (Shares::chunk_bytes); 0: all chunks are as large as the payload.
  size_t least_chunk_bytes = 0;
  uint32_t weight = 1;  // Share of the aggregator, where there are several.
  int beside = -1;      // Worker on the aggregator's host; -1: none.
  bool exact = false;   // elements travel as they are; else as integers
  bool tree = false;    // exact: several switches add, and each rounds but partial sums
  /// Exact: most ranks with terms together in a contribution to a sum of floats, which then has partial sums (PART-1);
  /// 0: none does.
  size_t partial_sum_ranks = 0;
  std::optional<int> significant_bits;  // Integer: what each term of a sum of floats keeps (integer/width.h).
  bool whole_chunks = false;    // the switch takes no words or a whole payload: shorter chunks are filled with zeros
  uint64_t secret[2] = {0, 0};  // Only the ranks have it: it keys the witness.

  int slots_per_shard() const { return slots / shards; }  // [SHARD-1]
  LaneSlots lanes_per_shard() const { return LaneSlots::of(slots_per_shard(), exact); }
  /// Exact: what its packets are checked by. [RDMA-5, SEAL-19]
  wire::ChecksumRule checksum_rule() const { return {session_key, switch_endpoint.carrier != Carrier::kRdma && !seal}; }
  size_t header_bytes() const { return exact ? wire::kExactHeaderBytes : wire::kHeaderBytes; }
  /// Whether its workers, each a rank, may use ReduceOp::kSumToFloat32. [NSUM-5]
  bool sums_to_float32() const { return exact && !tree && ranks == 0 && workers > 1; }
  int contributing_ranks() const { return ranks == 0 ? workers : ranks; }  // [WORD-8]
  std::string name_of(int number) const {
    const auto i = static_cast<size_t>(number);
    return i < worker_names.size() ? worker_names[i] : std::to_string(number);
  }
  /// How this worker shows a switch that it belongs to the session.
  wire::Membership membership() const { return {job, epoch, session_key, static_cast<uint8_t>(worker)}; }
};

/// A session and others beside it, in that order.
inline std::vector<SessionParameters> with_others(const SessionParameters& first,
                                                  const std::vector<SessionParameters>& others) {
  std::vector<SessionParameters> all = others;
  all.insert(all.begin(), first);
  return all;
}

}  // namespace switchml
