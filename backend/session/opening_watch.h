// Notices that the process of a rank has ended while its group opens. Ranks hold their connections to rank 0 before
// they have anything to agree on, until the session has a watch of its own. Of a rank that ended before rank 0 came
// there is no connection: on rank 0's host the kernel says so.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/config.h"
#include "socket/endpoint.h"
#include "socket/fd.h"
#include "store/blob.h"
#include "store/rendezvous.h"
#include "store/store_exchange.h"
#include "watch/peer_watch.h"

namespace switchml {

/// How the watches of a session find each other.
struct WatchMeeting {
  Fd listener;                                         // Rank 0's, where it can listen.
  std::shared_ptr<const seal::StreamDoorOwner> owner;  // Of the listener's door; else null.
  Endpoint address;                                    // Of that listener, on the other ranks; size 0: there is none.
  seal::StreamDoor door;

  /// Rank 0 listens at its host's address. A group can do without.
  static WatchMeeting offer(const Result<Endpoint>& own_address, const std::string& group);
  /// Tells the other ranks.
  void write(Blob* blob) const;
  static WatchMeeting read(const Blob& blob);
  /// Is the same on all ranks, and on those of no other group; 0: there is no listener.
  uint64_t number() const;
};

class OpeningWatch {
 public:
  /// Borrows all of them.
  OpeningWatch(const Config& config, const GroupInfo& group, Rendezvous& store);
  ~OpeningWatch();
  OpeningWatch(const OpeningWatch&) = delete;
  OpeningWatch& operator=(const OpeningWatch&) = delete;

  /// What this rank is about to say as its hello. Rank 0 listens from now on, and adds where. Another rank is known to
  /// rank 0 before it says anything, if that is there already and can be reached; else lost() sees to it.
  void begin(Blob* hello);
  /// "rank 2 (host a, process 4711) is gone: ..."; ok: none is, as far as is known. Both throw StatusError.
  Status lost();
  /// Rings where this rank is connected with rank 0. A rest ends when a rank is lost, too.
  StoreExchange::Bell bell();
  /// From now on lost() makes no connection, and so does not throw.
  void meet_no_more() { meets_ = false; }

 private:
  bool rest(Duration most, bool until_ring);
  void listen(Blob* hello);
  void meet_rank_0();
  void look_for(int rank);
  /// By an error of its own, or because all have started.
  bool has_left(int rank);
  void lose(const std::string& text);

  const Config& config_;
  const GroupInfo& group_;
  Rendezvous& store_;
  PeerWatchOptions options_;
  Blob own_;            // This rank's hello.
  Fd sign_;             // others cannot connect to it: this process has ended
  bool meets_ = false;  // rank 0, when it comes
  Time next_look_ = kNever;
  struct Neighbour {
    std::string sign, process;
  };
  std::map<int, Neighbour> neighbours_;  // Key: rank. An empty sign: it is on another host.
  std::mutex mutex_;                     // guards the next three
  bool rung_ = false;
  Status loss_;
  std::set<int> left_;                // Ranks that have said farewell.
  std::condition_variable news_;      // rung_ or loss_ has changed
  std::unique_ptr<PeerWatch> watch_;  // stops first
};

}  // namespace switchml
