// What every phase of an opening works with: the group, its settings, the ranks' words in the store, and the time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "session/opening_time.h"
#include "store/store_exchange.h"

namespace switchml {

/// Config, group and store are borrowed.
struct Opening {
  Opening(const Config& settings, const GroupInfo& ranks, Rendezvous& store, Time deadline)
      : config(settings), group(ranks), exchange(store, ranks), time(settings.connect_timeout, deadline) {}

  /// What rank 0 was to bring.
  Result<Blob> hear(const std::string& topic, const std::string& what) {
    return time.awaiting([&] { return exchange.hear(topic, 0, what, time.deadline()); });
  }
  Result<std::vector<Blob>> hear_all(const std::string& topic) {
    return time.awaiting([&] { return exchange.hear_all(topic, time.gather_end()); });
  }
  /// Leaves what this rank found out, or why it could not.
  Status say(const std::string& topic, const Result<Blob>& found) { return exchange.say(topic, blob_of(found)); }
  static Blob blob_of(const Result<Blob>& found) { return found.ok() ? found.value() : Blob::failure(found.status()); }

  /// Rank 0 leaves what `make` returns, or why there is none, and all hear it. `what` it was to bring.
  template <typename Make>
  Result<Blob> by_rank_0(const std::string& topic, const std::string& what, Make&& make) {
    if (group.rank == 0) {
      if (Status status = exchange.tell_all(topic, blob_of(std::forward<Make>(make)())); !status.ok()) return status;
    }
    return hear(topic, what);
  }

  const Config& config;
  const GroupInfo& group;
  StoreExchange exchange;
  OpeningTime time;
};

}  // namespace switchml
