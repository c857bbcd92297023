// What carries messages between a rank and the others of its group: memory that they share (shm/mail_transport.h), or
// TCP (messages/tcp_message_transport.h). It is a stream of records for each ordered pair of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "messages/rank_set.h"

namespace switchml {

struct MessageRecord {
  enum Kind : uint32_t {
    kFiller = 0,   // up to the end of a ring's memory
    kOffer = 1,    // a message that waits at its sender until it is wanted
    kWhole = 2,    // a message, with its bytes behind
    kWanted = 3,   // accepts an offer: let its bytes come
    kDropped = 4,  // refuses an offer
    kPiece = 5,    // the next bytes, behind it, of the oldest message that was wanted and is not complete
  };
  uint32_t kind = kFiller;
  int32_t tag = 0;
  uint64_t id = 0;      // the message's number among those of its sender to this receiver
  uint64_t bytes = 0;   // the message's size; a piece's own
  uint64_t ticket = 0;  // the message's number in the order of all that come to the receiver

  bool has_bytes_behind() const { return kind == kWhole || kind == kPiece; }
};

class MessageTransport {
 public:
  virtual ~MessageTransport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // ---- one thread at a time ----
  /// The ranks that have written something, have room again, or have gone since the last time.
  virtual RankSet take_signals() = 0;
  /// Sees what `source` has written until now. An error: the machine has no memory for it.
  virtual Status look(int source) = 0;
  /// The next record of that, or null, and what stands behind it. Until pop().
  virtual const MessageRecord* next(int source, const uint8_t** behind) = 0;
  virtual void pop(int source) = 0;
  /// So much of what is unasked for has been taken: as much may come again.
  virtual void take(int source, uint64_t charge) = 0;
  /// What `to` has taken so, ever.
  virtual uint64_t taken(int to) const = 0;
  /// A message from `source` is waited for.
  virtual void expect(int /*source*/) {}
  /// Bytes that may stand behind one record.
  virtual size_t most_behind() const = 0;
  /// Writes a record and `behind` bytes. False: there is no room now, and take_signals() tells when there is. An error:
  /// the machine has no memory for it.
  virtual Result<bool> put(int to, const MessageRecord& record, const void* data, size_t behind) = 0;
  /// For a message to `to`: greater than those of all that were sent to it before. 0: the receiver gives it one.
  virtual uint64_t ticket(int to) const = 0;
  /// There is something to do though no message is open.
  virtual bool is_busy() const { return false; }
  /// When take_signals() has something to tell because time has passed.
  virtual Time next_wakeup() const { return kNever; }

  // ---- departure ----
  /// After go(): waits for a moment until the other ranks' hosts have what was written.
  virtual void linger() {}
  enum class State : uint32_t { kHere = 0, kLeft = 1, kGaveUp = 2, kLost = 3 };  // kLost: it has not said why.
  /// Nothing more comes from this rank, for a reason of up to kMaxReason bytes. The first time counts.
  virtual void go(State how, const std::string& reason) = 0;
  /// Where a rank has gone, all that it has written is there for look() already.
  virtual State state(int rank) const = 0;
  virtual std::string reason(int rank) const = 0;
  static constexpr size_t kMaxReason = 250;
  /// The rank is known to have left. Any thread.
  virtual void note_left(int /*rank*/) {}

  // ---- signals and sleep: any thread ----
  /// Whether take_signals() would tell of something, or of notify().
  virtual bool has_work() const = 0;
  /// As if another rank had signalled.
  virtual void notify() = 0;
  /// Threads of a rank, of which one at a time looks after its messages.
  enum class Sleeper : uint32_t { kNobody = 0, kThread = 1, kCaller = 2 };
  /// What a sleep of that thread begins with.
  virtual uint32_t doorbell(Sleeper sleeper) const = 0;
  /// Signals ring for that sleeper, which calls this, from now on. It looks once more after this whether there is
  /// something to do.
  virtual void fall_asleep(Sleeper sleeper) = 0;
  /// The same for the thread, which may sleep already.
  virtual void hand_to_thread() = 0;
  virtual void awake() = 0;
  /// Until the doorbell rings that has been at `heard`, at most `timeout`; may return early.
  virtual void wait_for_bell(Sleeper sleeper, uint32_t heard, Duration timeout) = 0;
  /// Rings for the sleeper that signals would ring for.
  virtual void wake() = 0;
  /// Rings in any case.
  virtual void ring_for(Sleeper sleeper) = 0;
};

}  // namespace switchml
