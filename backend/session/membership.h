// The ranks of a running group: how each of them fares, and what they tell each other.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "session/opening_watch.h"
#include "store/rendezvous.h"
#include "watch/peer_watch.h"

namespace switchml {

/// Thread-safe.
class Membership {
 public:
  /// Borrows the store.
  Membership(GroupInfo group, Rendezvous& store) : group_(std::move(group)), store_(store) {}

  /// What happens when other ranks are heard of, from the watch's thread. Null: nothing.
  struct Handlers {
    std::function<void(const Status&)> on_loss;                      // Before callbacks of when_lost().
    std::function<void(int rank, const std::string& text)> on_news;  // A rank tells all that.
    std::function<void(int rank)> on_leave;                          // A rank has said farewell.
    std::function<bool()> rank_0_left;                               // PeerWatchOptions::rank_0_left.
  };
  /// Watches over the other ranks from now on, if the meeting has a place. Throws StatusError.
  void watch(WatchMeeting meeting, Duration patience, Handlers handlers);
  /// Says farewell to the other ranks; nothing is heard of them any more.
  void leave();
  /// Whether rank 0 would not see the death of some rank yet.
  bool awaits_ranks() const;

  /// Tells all other ranks; the first 255 bytes.
  void tell(const std::string& text);
  /// The other ranks hear the first 255 bytes as a loss.
  void give_up(const std::string& text);
  /// The rank's process has ended without a farewell.
  void note_gone(int rank, const std::string& how);
  /// The group has failed because of a rank. The first reason counts.
  void lose(const Status& why);
  bool has_loss() const;
  /// Session::when_rank_is_lost, gone_ranks, compare_calls.
  void when_lost(std::function<void(const Status&)> callback);
  std::map<int, std::string> gone_ranks() const;
  std::string compare_calls(const std::string& mine);

  const GroupInfo& group() const { return group_; }
  Rendezvous& store() { return store_; }

 private:
  const GroupInfo group_;
  Rendezvous& store_;
  std::atomic<int> comparisons_{0};
  Handlers handlers_;
  mutable std::mutex watch_mutex_;    // Guards the pointer: engines run before there is a watch.
  std::unique_ptr<PeerWatch> watch_;  // Stops first.
  mutable std::mutex loss_mutex_;     // Guards the rest.
  std::function<void(const Status&)> callback_;
  Status loss_;
  std::map<int, std::string> gone_;  // By rank: how.
};

}  // namespace switchml
