// One rank's part in the messages of its group, written as a machine that is stepped: step(now) does what can be done
// without waiting. It reads no clock and starts no thread (messages.h runs it).
//
// A sender offers a message, and its bytes follow when the receiver has asked for it: both ends know then where they
// go, so no unexpected message keeps others from coming. A short one takes its bytes along, as long as the receiver has
// not too many unexpected bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/status.h"
#include "messages/message.h"
#include "messages/message_matcher.h"
#include "messages/message_sender.h"
#include "messages/message_transport.h"

namespace switchml {

/// An end that has come: what is to be called.
struct MessageOutcome {
  std::function<void(const Status&, int source)> done;
  Status status;
  int source = 0;
};

class Messenger {
 public:
  /// The only one of that rank. `transport` outlives it.
  explicit Messenger(MessageTransport& transport);

  // ---- one thread at a time ----
  /// Steps are to follow, until one says that there is no more to do. Precondition: another rank, or any.
  void send(Message message);
  void receive(Message message);
  /// Does a bounded part of what there is to do; true if there may be more. What has ended is among outcomes().
  bool step(Time now);
  /// Ends everything with `status`, and all that comes later; the other ranks hear why. The first time counts.
  void fail(const Status& status);
  /// What has ended since the last time.
  std::vector<MessageOutcome> outcomes() { return std::exchange(outcomes_, {}); }
  /// Why it has failed, or ok.
  const Status& status() const { return status_; }
  /// Whether anything has not ended yet, or another rank waits for an answer.
  bool is_busy() const;
  /// When a step has to look at the time.
  Time next_wakeup() const { return std::min(earliest_deadline_, transport_.next_wakeup()); }

  // ---- any thread ----
  const WorkerCounters& counters() const { return counters_; }

 private:
  /// Another rank, as it is seen from here.
  struct Peer {
    MessageSender out;
    bool gone = false;                // nothing more comes
    std::deque<Message> coming = {};  // their bytes: asked for, in that order
  };

  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  bool open(const Message& message);
  void end(const Message& message, const Status& status, int source);

  void read(int source);
  bool is_expected(int source, const MessageRecord& record) const;
  void read_one(int source, const MessageRecord& record, const uint8_t* behind);
  void arrive(int source, const MessageRecord& record, const uint8_t* behind);
  void take(Message wanted, int source, const MessageRecord& record, const uint8_t* behind);
  void take_piece(int source, size_t bytes, const uint8_t* behind);
  bool write_all();

  void end_those_with(int gone);
  void end_all(const std::vector<Message>& messages, const Status& status);
  bool are_all_gone() const;
  void check_deadlines(Time now);
  std::string progress_of(const Message& message) const;
  template <typename F>
  const Message* find(const F& f) const;

  MessageTransport& transport_;
  const int rank_;
  WorkerCounters counters_;
  std::vector<Peer> peers_;
  MessageMatcher matcher_;
  RankSet unwritten_;  // ranks for which there may be something to write
  RankSet leavers_;    // gone, and something may wait for them
  uint64_t looks_ = 0;
  size_t open_ = 0;
  Time earliest_deadline_ = kNever;
  std::vector<MessageOutcome> outcomes_;
  Status status_;
};

}  // namespace switchml
