// Ranks speak to each other through the store: each leaves a blob under a topic, and reads those of others.
#pragma once

#include <string>
#include <vector>

#include "session/blob.h"
#include "session/session.h"

namespace switchml {

/// Where `rank` leaves what it says on a topic.
inline std::string rank_key(const std::string& topic, int rank) {
  return "switchml/" + topic + "/" + std::to_string(rank);
}

class RollCall {
 public:
  /// Borrows both.
  RollCall(Rendezvous& store, const GroupInfo& group) : store_(store), group_(group) {}

  /// Leaves this rank's blob.
  Status say(const std::string& topic, const Blob& blob);
  /// Everybody's blobs in the order of ranks. A rank whose blob carries an error ends it with "rank N: ..."; ranks that
  /// have left none by the deadline are named, all of them.
  Result<std::vector<Blob>> hear_all(const std::string& topic, Time deadline);
  /// Names the ranks that have left none, at once; `otherwise` if all have. `waited`: how long, for the message.
  Status who_is_missing(const std::string& topic, Duration waited, const Status& otherwise);
  /// The blob of one rank; the error it carries is returned as it is. `what` says what it was to bring, for the
  /// message.
  Result<Blob> hear(const std::string& topic, int rank, const std::string& what, Time deadline);

 private:
  Result<std::string> read(const std::string& topic, int rank, Time deadline);
  std::string missing_message(const std::vector<int>& ranks, Duration waited) const;

  Rendezvous& store_;
  const GroupInfo& group_;
};

}  // namespace switchml
