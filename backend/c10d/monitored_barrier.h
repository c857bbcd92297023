// torch.distributed.monitored_barrier: a barrier that names the ranks that did not come. It goes over the group's
// key-value store and needs no connection between the ranks, because it is called when something is wrong with them.
// Free of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "store/rendezvous.h"

namespace switchml {

/// The n-th call of each rank belongs to one barrier: a rank that comes to a barrier which has failed without it gets
/// that failure at once, and is in step for the next. Holds size + 1 short keys in the store, however many calls there
/// are.
///
///   opened      "N"                   by rank 0, when it comes to call N
///   arrived/R   "N" or "N gone"       by rank R, when it comes to call N, and when it gives up waiting for rank 0
///   verdict     "N P" or "N P why"    by rank 0, when it has decided call N; P is the last that all ranks passed
///
/// Rank 0 decides within its timeout. The others wait for it to open the call for their timeout, and as long again, and
/// a second, for its verdict. A rank that gives up says so before it looks for rank 0 a last time, and rank 0 opens
/// before it looks which ranks have come: at least one of the two sees the other, so both agree about the outcome.
class MonitoredBarrier {
 public:
  /// `store` is private to the group. 0 <= rank < size.
  MonitoredBarrier(std::shared_ptr<Rendezvous> store, int rank, int size);

  /// Returns when all ranks have come, or with an error: kTimeout on rank 0 names the first rank that did not come
  /// (every one, with `wait_all_ranks`); the other ranks' names rank 0 and repeats what it said. kAborted after
  /// interrupt(), kUnavailable if the store fails, kInvalidArgument if a call is under way on another thread. timeout
  /// >= 0. What an interruption throws (base/interruption.h) ends the call on all ranks.
  Status pass(milliseconds timeout, bool wait_all_ranks);

  /// Ends the call that is under way, and later ones, with `reason`. Thread-safe, returns at once.
  void interrupt(const std::string& reason);

 private:
  struct Verdict {
    uint64_t call = 0;
    uint64_t passed = 0;
    std::string why;
  };
  enum class Arrival { kNotYet, kCame, kGone };

  Status lead(milliseconds timeout, bool wait_all_ranks);
  Status follow(milliseconds timeout);
  /// Tell the others how this rank's part ended.
  Status end_lead(const Status& outcome);
  Status end_follow(const Status& outcome);
  Result<Arrival> arrival(int rank) const;
  Result<bool> opened() const;
  Result<Verdict> verdict() const;
  Status announce(const Status& outcome);
  /// Writes this rank's arrival key.
  Status arrive(const std::string& suffix);
  Status refusal(const std::string& why) const;
  /// What the key holds now; empty if it does not exist.
  Result<std::string> peek(const std::string& key) const;
  /// Looks again and again: true as soon as `look` is, false when `deadline` has passed, or an error of either.
  Result<bool> until(Time deadline, const std::function<Result<bool>()>& look) const;

  const std::shared_ptr<Rendezvous> store_;
  const int rank_;
  const int size_;
  std::mutex running_;   // held by the call under way; guards the counts
  uint64_t call_ = 0;    // this rank's calls so far
  uint64_t passed_ = 0;  // on rank 0: the last one that all ranks passed
  mutable std::mutex mutex_;
  Status interrupted_;
};

}  // namespace switchml
