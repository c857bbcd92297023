// How the chunks of a session look: which chunks a collective has, what goes into a frame, and what a result must be to
// be taken. A shard (engine/shard.h) knows no more of a session than this. exact/ and integer/ have a format each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/siphash.h"
#include "format/session_parameters.h"
#include "format/task.h"
#include "slots/chunk_plan.h"
#include "transport/transport.h"
#include "wire/packet.h"

namespace switchml {

/// The stage of a chunk: what its payload means. Part of what ranks compare.
enum class Stage : uint8_t {
  kCall = 0,       // exponents and flags of a superblock, or nothing: announces the collective
  kData = 1,       // elements
  kNonfinite = 2,  // counts of NaN, +Inf and -Inf per element, for superblocks that hold any
  kAnnounced = 4,  // nothing: announces a collective that has no other chunk in this lane
};

/// What is sent in one use of a slot.
struct Chunk {
  Stage stage = Stage::kCall;
  size_t superblock = 0;
  ElementRange range;
};

/// A chunk that waits for its result. Its frame keeps the very bytes that were sent, for as long as it is open.
struct InFlight : Chunk {
  Task* task = nullptr;  // null: the slot is free
  uint16_t slot = 0;
  uint32_t seq = 0;
  int lane = 0;
  int index = 0;                      // The slot in its shard.
  int failed_checks = 0;              // Results that were damaged.
  uint8_t* frame = nullptr;           // header, then the payload, which is aligned
  uint32_t call = 0;                  // hash of what the ranks must agree about
  size_t sent_bytes = 0;              // Payload, padding included.
  size_t meaning_bytes = 0;           // Payload without padding.
  size_t result_bytes = 0;            // Payload of the result.
  const uint8_t* elements = nullptr;  // elements of a tensor that are sent in place of the frame's payload
  bool has_target = false;            // over RDMA: the switch is told where to write the result
};

/// A lane of slots, in which chunks are sent in an order that all ranks have.
struct LaneShape {
  Task::Stream stream = Task::Stream::kShort;
  bool has_elements = true;  // False: it announces collectives, and agrees on exponents.
  int slots = 0;
};

/// A result as its frame has it.
struct ResultView {
  uint16_t slot = 0;
  uint32_t seq = 0;
  uint8_t flags = 0;
  uint32_t check = 0;  // the witness, or the call
  const uint8_t* payload = nullptr;
  size_t bytes = 0;
  size_t whole_bytes = 0;  // Exact: with the blocks of zeros that a packed one leaves out.
  std::optional<wire::PackedPayload> packed = std::nullopt;  // Exact: without those.
};

/// Belongs to one shard and its thread. Keeps references to the counters and to the session, which a move to another
/// switch changes.
class Format {
 public:
  Format(const SessionParameters& session, WorkerCounters& counters);
  virtual ~Format() = default;
  Format(const Format&) = delete;
  Format& operator=(const Format&) = delete;

  /// In the order in which they take the shard's slots, and are served.
  virtual std::vector<LaneShape> lanes() const = 0;
  virtual size_t memory_bytes() const { return 0; }

  // ---- from tensors to frames ----
  /// `part`: this shard's elements. `chunk_bytes`: of a payload.
  virtual std::unique_ptr<Task> begin(uint64_t serial, std::shared_ptr<SharedCollective> collective, ElementRange part,
                                      size_t chunk_bytes) = 0;
  enum class Next : uint8_t {
    kNothing,       // the task has no chunk left for this lane
    kAnnouncement,  // a chunk without elements
    kElements,      // a chunk that counts in the congestion window
  };
  /// What take() would give, if it need not wait.
  virtual Next next(Task& task, const LaneShape& lane) = 0;
  /// The task's next chunk for this lane; none where it must wait for results, or for elements to be ready.
  /// Precondition: next() is not kNothing.
  virtual std::optional<Chunk> take(Task& task, const LaneShape& lane) = 0;
  /// Writes the frame of a chunk that was opened in a slot. `link`: the transport that it goes through.
  virtual void encode(InFlight& flight, Transport& link) = 0;
  /// The frame of a use of a slot that no collective has: so many bytes of zeros.
  virtual std::vector<uint8_t> frame_of_zeros(size_t slot, uint32_t seq, size_t bytes) const = 0;
  /// As it goes to the transport; a repeat may be on its way while the result is being written.
  virtual TxFrame frame_of(const InFlight& flight, bool is_repeat) const;
  /// Writes the session's job and epoch into an open frame, after a move to another switch. [MOVE-5]
  virtual void readdress(const InFlight& flight) const = 0;

  // ---- from frames to tensors ----
  enum class Parsed : uint8_t { kResult, kMalformed, kForeign, kDamaged };
  /// Whether a frame is a result of this session. `result` views it, and is set on kResult only.
  virtual Parsed parse(const RxFrame& frame, ResultView* result) const = 0;
  enum class Verdict : uint8_t { kHolds, kMalformed, kDamaged, kDisagrees };
  /// Whether it is the result of this chunk. kDamaged: asking again may help.
  virtual Verdict judge(const InFlight& flight, const ResultView& result) const = 0;
  /// Takes it into the collective's output, or into what later chunks need. Precondition: judge() says kHolds.
  virtual void decode(Task& task, const InFlight& flight, const ResultView& result) = 0;
  /// What is wrong where ranks disagree, for an error message: "..., and not all contributions belong to that call".
  virtual std::string disagreement() const = 0;

 protected:
  /// A keyed hash of what all contributions to a use must have in common. [WIT-8]
  uint32_t call_of(const InFlight& flight, uint64_t exponents_hash) const;
  /// What the headers of all formats have, of a contribution.
  template <typename Header>
  Header header_of(wire::Kind kind, size_t slot, uint32_t seq) const {
    Header header;
    header.version = wire::kVersion;
    header.kind = static_cast<uint8_t>(kind);
    header.job = session_.job;
    header.worker = static_cast<uint8_t>(session_.worker);
    header.epoch = session_.epoch;
    header.slot = static_cast<uint16_t>(slot);
    header.seq = seq;
    return header;
  }

  const SessionParameters& session_;
  WorkerCounters& counters_;

 private:
  const SipKey key_;
  const uint32_t nonce_;  // the session's first epoch [MOVE-1]
};

}  // namespace switchml
