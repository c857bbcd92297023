// What the ranks of one host share to reduce each other's chunks, and the rules by which they do. The chunks of all
// collectives of a board are one stream, numbered from 1 on, the same on all ranks; chunk `seq` uses slot seq % slots:
//
// - offer: each rank copies its chunk into its frame of the slot. The last one makes the chunk ready, and says what is
//   to be done (Verdict): each rank makes its own result, or its part of the result of all;
// - make: each rank does that, in the order of chunks. The last one publishes the chunk.
//
// No rank offers a chunk before it has taken the results of all but the last window() before it, half of the slots. So
// when all have offered one, the slot's last result has been taken, and frames stay as they are until all ranks have
// made what they make of them: a rank that writes the next one has taken the results of half of the slots since, and
// all others had taken this one's when they offered those. Nothing here waits or holds a lock, so a rank that dies
// blocks no other: only what it does is missing.
//
// A tensor that lies in the segment is read, and gets the result, in place. A rank that gives up says so on the board
// (fail) before its tensors change, and what has been read of them is not published then.
//
// Sums have the same bits in whichever order they are added, and by any rank.
//
// Where the ranks run on several hosts, each host has such a board, and the chunks of all boards are the same. Then
// each chunk has an owner among the host's ranks. It alone takes the chunk once all of the host have offered it, hands
// the frames to a switch, and publishes what comes back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "shm/reducer.h"
#include "slots/chunk_plan.h"

namespace switchml::shm {

/// The shape of a board: the same in all processes.
struct BoardShape {
  int ranks = 0;           // 1 ... kMaxHostRanks
  int slots = 0;           // 1 ... kMaxSlots
  size_t chunk_bytes = 0;  // a multiple of 64
  int owners = 0;          // 0: the ranks reduce chunks; else rank seq % owners hands it to a switch; at most `ranks`
  /// A second board, for collectives of so few bytes, lies behind this one; 0: there is none. A multiple of 64.
  size_t short_chunk_bytes = 0;
  /// The sum of frames of so few bytes each rank makes for itself: that takes less than to wait for the others' parts.
  size_t few_bytes = 0;

  /// The size of the whole board and the one behind it; a multiple of 64.
  size_t bytes() const;
  /// The shape of the board behind it.
  BoardShape short_shape() const { return {ranks, slots, short_chunk_bytes, owners, 0, few_bytes}; }
};

/// What a board takes at most, whatever the number of ranks; and the short one behind it.
inline constexpr size_t kMaxBoardBytes = 16 << 20;
inline constexpr size_t kMaxShortBoardBytes = 2 << 20;
/// The shape for so many ranks, 1 ... kMaxHostRanks, with a short board behind it.
BoardShape shape_for(int ranks);
/// The shape for `ranks` of a host, where the fullest host of the group has `most` and each has so many owners.
BoardShape shape_on_host(int ranks, int most, int owners);

/// What a rank says of a chunk. All must say the same, or they have called different things.
struct ChunkCall {
  ElementReduction reduction;
  uint64_t agreed = 0;    // hash of whatever else must agree
  uint32_t elements = 0;  // elements of the frame; of one piece where each rank has one (shm/host_map.h)
  Movement movement = Movement::kNone;
  int root = 0;  // used by broadcasts and scatters
  /// Each rank makes a part of the result, unless it is the sum of frames of few bytes. Else each makes what it takes.
  bool is_in_parts = false;

  // ---- what is the rank's own ----
  /// Where its elements are, in bytes from the segment's beginning (shm/arena.h), and how far it is from one rank's to
  /// the next, of a scatter; 0: in its frame.
  uint64_t from = 0;
  uint64_t from_stride = 0;
  /// Where elements [begin, end) of the result go, likewise, each rank's of a gathering; 0: it takes them from the
  /// board. None: it takes nothing.
  uint64_t to = 0;
  uint64_t to_stride = 0;
  uint32_t begin = 0;
  uint32_t end = UINT32_MAX;
  bool is_large = false;  // the result that it takes would not stay in the caches
};

/// What a chunk is that all have offered, and what each rank makes of it.
enum class Verdict : uint32_t {
  kReduced,   // A switch's result, of all hosts.
  kMismatch,  // Nothing: ranks have called different things.
  kFrames,    // Its own result, of frames. The chunk is published at once.
  kTensors,   // The same, of tensors that may change when the chunk is published.
  kParts,     // Its part of the result, for all.
};

/// A view of a board in shared memory; any number of processes has one each. Thread-safe, but for what is a rank's own.
class Board {
 public:
  /// `memory`: bytes(shape), 64-byte aligned, zero where no rank has begun. Borrowed. `beside`: another board of
  /// the same ranks, with which it has its doorbells and its reason to fail in common: they ring for ranks that sleep
  /// until something happens on either. Not used later.
  Board(const BoardShape& shape, uint8_t* memory, const Board* beside = nullptr);

  /// Gives memory to the frames and results of chunk `seq`, and of all that use its slot.
  Status populate(uint64_t seq) const;

  /// Where `rank` puts its part of chunk `seq` before it offers it: chunk_bytes of elements, 64-byte aligned.
  uint8_t* frame(int rank, uint64_t seq) const;
  /// Once per chunk, in the order of chunks.
  void offer(int rank, uint64_t seq, const ChunkCall& call) const;
  /// Whether all have offered it. Without owners.
  bool is_ready(uint64_t seq) const;
  /// Whether a chunk of frames is of kParts. Then no rank reads `rank`'s part of its frame but itself.
  bool is_shared_out(const ChunkCall& call) const;
  /// Which elements of the result of a chunk of kParts `rank` makes.
  ElementRange part_of(int rank, const ChunkCall& call) const;
  /// Makes its part for all ranks. `own_input`: the chunk of this rank's input; null: it is in its frame or in the
  /// segment. `own_result`: where the elements go that this rank takes, if not to the segment. `stores`: of what the
  /// others copy.
  void make_part(int rank, uint64_t seq, const uint8_t* own_input, uint8_t* own_result, Stores stores) const;
  /// Where `rank` has, of a chunk that is not published, elements for another one (`piece`: of a scatter).
  const uint8_t* elements_of(int rank, uint64_t seq, int piece = 0) const;
  /// `rank` has made what it has to make of a ready chunk; the last one publishes it. Not what has been read of tensors
  /// of ranks that have given up.
  void made(int rank, uint64_t seq) const;
  bool has_made(int rank, uint64_t seq) const;

  // ---- with owners, instead of that ----
  int owner_of(uint64_t seq) const { return static_cast<int>(seq % static_cast<uint64_t>(shape_.owners)); }
  /// Whether all have offered a chunk that is not published yet.
  bool is_complete(uint64_t seq) const;
  /// Whether all have said the same of a complete chunk.
  bool is_agreed(uint64_t seq) const;
  /// Where the result of a complete chunk goes before it is published: chunk_bytes, 64-byte aligned. Its owner's.
  uint8_t* result_memory(uint64_t seq) const;
  /// Wakes ranks that sleep until it is there. Any thread of the owner may call it.
  void publish(uint64_t seq, Verdict verdict) const;
  /// Tells all ranks why nothing more will be published; the first reason counts. Texts of up to kMaxReason bytes.
  /// After a timeout (Code::kTimeout) nothing is, even if the last rank comes.
  void fail(const Status& status) const;
  /// The reason given to fail(), or ok.
  Status failure() const;
  static constexpr size_t kMaxReason = 1000;

  bool is_published(uint64_t seq) const;
  /// Precondition: the chunk is ready or published. Valid until the rank offers the next use of the slot.
  Verdict verdict(uint64_t seq) const;
  const uint8_t* result(uint64_t seq) const;
  /// How many chunks a rank may have offered without having taken their results.
  uint64_t window() const;

  /// What `rank` has said when it offered the chunk.
  const ChunkCall& call_of(int rank, uint64_t seq) const;

  // ---- for messages ----
  bool has_offered(int rank, uint64_t seq) const;

  // ---- presence and sleep ----
  void leave(int rank) const;
  /// Whether all have.
  bool is_deserted() const;
  bool has_left(int rank) const;
  /// Chunks published so far, of all.
  uint64_t published() const;
  /// A sleep until a chunk is ready, or so many are published, a rank leaves, or wake(rank). UINT64_MAX: never. Look
  /// between the first and the second whether there is something to do: no wake can be missed then. On several boards
  /// that have the same doorbells: the first on all of them, then the second on one, with what the first on it has
  /// returned, then the third on all.
  uint32_t fall_asleep(int rank, uint64_t until_ready, uint64_t until_published) const;
  void wait_for_bell(int rank, uint32_t heard, Duration timeout) const;
  void awake(int rank) const;
  /// Ends a sleep of `rank`, if it is in one.
  void wake(int rank) const;

  const BoardShape& shape() const { return shape_; }
  /// Gives memory to all of a board and the one behind it but frames and results. Before any rank begins.
  static Status populate_headers(const BoardShape& shape, uint8_t* memory);
  /// The size of a board without the one behind it.
  static size_t bytes(const BoardShape& shape);

 private:
  struct Presence;
  struct Slot;
  struct Offer;
  struct Progress;
  struct Reason;
  struct Layout;
  size_t index(uint64_t seq) const { return static_cast<size_t>(seq % static_cast<uint64_t>(shape_.slots)); }
  Slot& slot_of(uint64_t seq) const;
  Offer& offer_of(int rank, uint64_t seq) const;
  size_t slot_bytes() const;
  Verdict verdict_on(uint64_t seq) const;
  bool reads_tensors(uint64_t seq) const;
  bool is_overdue() const;

  BoardShape shape_;
  uint8_t* memory_;  // the segment
  Progress* progress_;
  Reason* reason_;
  Presence* presence_;
  Presence* doorbells_;
  Slot* slots_;
  Offer* offers_;
  uint8_t* frames_;
};

}  // namespace switchml::shm
