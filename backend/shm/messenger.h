// One rank's part in the messages of its host, written as a machine that is stepped: step(now) does what can be done
// without waiting. It reads no clock and starts no thread (messages.h runs it).
//
// A sender offers a message, and its bytes follow when the receiver has asked for it: both ends know then where they
// go, so no unexpected message keeps others from coming. A short one takes its bytes along, as long as the receiver has
// not too many unexpected bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/status.h"
#include "shm/mail.h"
#include "shm/matching.h"
#include "shm/message.h"
#include "shm/outgoing.h"

namespace switchml::shm {

/// An end that has come: what is to be called.
struct Outcome {
  std::function<void(const Status&, int source)> done;
  Status status;
  int source = 0;
};

class Messenger {
 public:
  /// The only one of that rank. `mail` outlives it.
  Messenger(const Mail& mail, int rank);

  // ---- one thread at a time ----
  /// Steps are to follow, until one says that there is no more to do. Precondition: another rank, or any.
  void send(Message message);
  void receive(Message message);
  /// Does a bounded part of what there is to do; true if there may be more. What has ended is among outcomes().
  bool step(Time now);
  /// Ends everything with `status`, and all that comes later; the other ranks hear why. The first time counts.
  void fail(const Status& status);
  /// What has ended since the last time.
  std::vector<Outcome> outcomes() { return std::exchange(outcomes_, {}); }
  /// Why it has failed, or ok.
  const Status& status() const { return status_; }
  /// Whether anything has not ended yet, or another rank waits for an answer.
  bool is_busy() const;
  /// When a step has to look at the time.
  Time next_wakeup() const { return earliest_deadline_; }

  // ---- any thread ----
  /// Whether another rank has done something that a step would look at. Nothing, if this one has signalled itself.
  bool has_work() const { return mail_.any_signal(rank_); }
  const WorkerCounters& counters() const { return counters_; }

 private:
  /// Another rank, as it is seen from here.
  struct Peer {
    Outgoing out;
    Ring in;
    bool opened = false;              // `in` has memory
    bool gone = false;                // nothing more does
    std::deque<Message> coming = {};  // their bytes: asked for, in that order
  };

  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  bool open(const Message& message);
  void end(const Message& message, const Status& status, int source);

  void read(int source);
  void read_one(int source, const Record& record, const uint8_t* behind);
  void arrive(int source, const Record& record, const uint8_t* behind);
  void take(Message wanted, int source, const Record& record, const uint8_t* behind);
  void take_piece(int source, size_t bytes, const uint8_t* behind);
  bool write_all();

  void end_those_with(int gone);
  void end_all(const std::vector<Message>& messages, const Status& status);
  bool are_all_gone() const;
  void check_deadlines(Time now);
  std::string progress_of(const Message& message) const;
  template <typename F>
  const Message* find(const F& f) const;

  const Mail& mail_;
  const int rank_;
  WorkerCounters counters_;
  std::vector<Peer> peers_;
  Matching matching_;
  RankSet unwritten_;  // ranks for which there may be something to write
  RankSet leavers_;    // gone, and something may wait for them
  uint64_t looks_ = 0;
  size_t open_ = 0;
  Time earliest_deadline_ = kNever;
  std::vector<Outcome> outcomes_;
  Status status_;
};

}  // namespace switchml::shm
