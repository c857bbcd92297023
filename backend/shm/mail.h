// What the ranks of one host share to send each other messages: a ring for each ordered pair, and for each rank a box
// that says which ranks have something for it, whether it sleeps, and whether it is still there. What the records mean
// is messages/messenger.h's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"
#include "messages/message_transport.h"
#include "shm/board.h"
#include "shm/ring.h"

namespace switchml::shm {

/// Where mail is in the segment of such a board, and how many bytes it takes there, in whole pages; none with owners.
size_t mail_begin(const BoardShape& shape);
size_t mail_bytes(const BoardShape& shape);
/// Gives memory to what needs some before any rank begins.
Status populate_mail(const BoardShape& shape, uint8_t* segment);

/// A view; any number of processes has one each. Thread-safe, but for what is a rank's own.
class Mail {
 public:
  /// What all rings take together at most, and one of them.
  static constexpr size_t kMaxRingsBytes = 20 << 20;
  static constexpr size_t kMaxCapacity = 512 * 1024;
  static size_t capacity(int ranks);
  static size_t bytes(int ranks);
  /// The part of bytes() that lies before the rings.
  static size_t boxes_bytes(int ranks);

  /// `memory`: bytes(ranks), 64-byte aligned, zero where no rank has begun. Borrowed.
  Mail(int ranks, uint8_t* memory);

  int ranks() const { return ranks_; }
  Ring ring(int from, int to) const;
  /// A number for a message to `to`: greater than those of all that were sent to it before.
  uint64_t ticket(int to) const;

  // ---- signals: a record in a ring, room in a ring, or departure ----
  /// Has `to` look at what `from` has done; wakes it if it sleeps.
  void signal(int from, int to) const;
  bool any_signal(int rank) const;
  /// Those that have signalled `rank` since the last time.
  RankSet take_signals(int rank) const;

  // ---- sleep ----
  using Sleeper = MessageTransport::Sleeper;
  /// What a sleep of that thread begins with.
  uint32_t doorbell(int rank, Sleeper who) const;
  /// Signals ring for that sleeper from now on. Look once more after this whether there is something to do.
  void fall_asleep(int rank, Sleeper who) const;
  void awake(int rank) const;
  /// Until the doorbell rings that has been at `heard`, at most `timeout`; may return early.
  void wait_for_bell(int rank, Sleeper who, uint32_t heard, Duration timeout) const;
  /// Rings for the thread that signals would ring for.
  void wake(int rank) const;
  /// Rings in any case.
  void ring_for(int rank, Sleeper who) const;

  // ---- departure ----
  using State = MessageTransport::State;
  /// Nothing more comes from `rank`, for a reason of up to kMaxReason bytes. The first time counts.
  void go(int rank, State how, const std::string& reason) const;
  State state(int rank) const;
  std::string reason(int rank) const;
  static constexpr size_t kMaxReason = MessageTransport::kMaxReason;

 private:
  struct Box;
  int ranks_;
  Box* boxes_;
  uint8_t* rings_;
};

}  // namespace switchml::shm
