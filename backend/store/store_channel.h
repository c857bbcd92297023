// What the ranks of a running group tell each other through its store. A rank that is stopped or busy is waited for, as
// at a switch: calls have their own timeouts.
#pragma once

#include <functional>
#include <string>

#include "store/blob.h"
#include "store/rendezvous.h"

namespace switchml {

/// One thread at a time.
class StoreChannel {
 public:
  /// `may_wait` is asked every 100 ms while nothing has come from `rank`, and ends the wait with an error.
  using MayWait = std::function<Status(int rank, Duration waited)>;
  /// Borrows the store, where its topics begin with `prefix`.
  StoreChannel(Rendezvous& store, int rank, MayWait may_wait, std::string prefix = "");

  /// Once per topic.
  Status say(const std::string& topic, const std::string& text);
  Result<std::string> hear(const std::string& topic, int rank) const;
  /// The same of blobs. What fails here, prefixed by this rank, is an error of all that hear it; it is returned, too.
  Status say_blob(const std::string& topic, const Result<Blob>& found);
  Result<Blob> hear_blob(const std::string& topic, int rank) const;
  /// Says how this rank has fared, and hears it of all `ranks`. The first that has fared badly is the error, prefixed
  /// by its rank where it is another.
  Status agree(const std::string& topic, int ranks, const Status& mine);

 private:
  Rendezvous& store_;
  const int rank_;
  const MayWait may_wait_;
  const std::string prefix_;
};

}  // namespace switchml
