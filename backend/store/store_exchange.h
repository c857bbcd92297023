// Ranks speak to each other through the store: each leaves a blob under a topic, and reads those of others.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "store/blob.h"
#include "store/rendezvous.h"

namespace switchml {

/// Where `rank` leaves what it says on a topic.
inline std::string rank_key(const std::string& topic, int rank) {
  return "switchml/" + topic + "/" + std::to_string(rank);
}

/// One thread.
class StoreExchange {
 public:
  /// Borrows both.
  StoreExchange(Rendezvous& store, const GroupInfo& group) : store_(store), group_(group) {}

  /// Leaves this rank's blob.
  Status say(const std::string& topic, const Blob& blob);
  /// The same on rank 0, where all wait for this word.
  Status tell_all(const std::string& topic, const Blob& blob);
  /// All ranks' blobs in their order. A blob that carries an error ends it with "rank N: ..."; ranks that
  /// have left none by the deadline are named, all of them.
  Result<std::vector<Blob>> hear_all(const std::string& topic, Time deadline);
  /// Names the ranks that have left none, at once; `otherwise` if all have. `waited`: how long, for the message. Where
  /// the store is broken: that.
  Status who_is_missing(const std::string& topic, Duration waited, const Status& otherwise);
  /// The blob of one rank; the error it carries is returned as it is. `what` says what it was to bring, for the
  /// message.
  Result<Blob> hear(const std::string& topic, int rank, const std::string& what, Time deadline);

  /// Ends what any other rank waits for here, now or later, with "rank N: " and `why`. Not where the others know: from
  /// a blob of this rank, or because they wait as long as it did (kTimeout).
  void give_up(const Status& why);
  /// Follows an error of all ranks. Rank 0, as the store may end with its process, waits until all others have called
  /// it too, for `patience` at most. Where one is lost (wait_while) it waits for the rest of them, and less long.
  void part(Duration patience);
  /// An error of `failed` ends this rank's waits.
  void wait_while(std::function<Status()> failed) { failed_ = std::move(failed); }
  /// How ranks that wait for rank 0 hear of its words without looking again and again.
  struct Bell {
    /// Rank 0: all are to look.
    std::function<void()> ring;
    /// Sleeps so long, and longer where rank 0 is to ring (`until_ring`), but no longer than until it does. Returns
    /// whether it has.
    std::function<bool(Duration most, bool until_ring)> rest;
  };
  void use(Bell bell) { bell_ = std::move(bell); }
  /// Why waiting is of no use any more, for a wait for something else than others' words; else ok.
  Status ended();
  /// Why it is, where that is known within a second: a dead rank may have had the store, and other ranks may have left
  /// a switch because of it. Else `why`, at the latest then.
  Status cause_of(const Status& why, Time latest = kNever);

 private:
  Result<std::string> read(const std::string& topic, int rank, Time deadline);
  Status read_some(const std::string& topic, int first, int count, Time deadline, std::vector<std::string>* texts);
  static std::vector<std::string> keys_of(const std::string& topic, int first, int count);
  Status note_missing(const std::string& topic, int first, int count, std::vector<int>* missing);
  bool rest(Duration most, bool until_ring) const;
  Status unreadable(const Status& why);
  std::string missing_message(const std::vector<int>& ranks, Duration waited) const;

  Rendezvous& store_;
  const GroupInfo& group_;
  std::function<Status()> failed_;
  Bell bell_;
  bool known_ = false;  // The others know why this rank fails.
};

/// For a rank that cannot take part in Session::open: the others' calls of it end with "rank N: " and `why`.
void give_up_opening(Rendezvous& store, const GroupInfo& group, const Status& why);

inline const Status& status_of(const Status& status) { return status; }
template <typename T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

/// What `step`, a Status or a Result, returns, or throws but for NoThread, which becomes an error. If that is one, the
/// others are told.
template <typename Step>
auto telling_others(StoreExchange& roll, Step&& step) -> decltype(step()) {
  try {
    auto result = step();
    if (!result.ok()) roll.give_up(status_of(result));
    return result;
  } catch (const StatusError& none) {
    roll.give_up(none.status());
    return none.status();
  } catch (const std::exception& thrown) {
    const std::string text = thrown.what();  // The first line of Python's exceptions says all.
    roll.give_up(Status(Code::kAborted, "its process ended the wait: " + text.substr(0, text.find('\n'))));
    throw;
  }
}

}  // namespace switchml
