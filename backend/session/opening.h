// What a rank has and knows while its group opens, for the steps of the agreement.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "client/switch_address.h"
#include "session/agreement.h"
#include "session/host_memory.h"
#include "session/opening_time.h"
#include "socket/address.h"
#include "store/store_exchange.h"

namespace switchml {

/// Config, group and store are borrowed.
struct Opening {
  Opening(const Config& settings, const GroupInfo& ranks, Rendezvous& store, Time deadline,
          std::shared_ptr<ControllerClient> controller)
      : config(settings),
        group(ranks),
        exchange(store, ranks),
        time(settings.connect_timeout, deadline),
        memory(ranks, exchange, settings.connect_timeout, time.gather_end()) {
    if (ranks.rank == 0 && !settings.controller.empty())
      agreed.controller = {std::move(controller), settings.controller, {}};
    agreed.parameters.worker = ranks.rank;
    agreed.parameters.workers = ranks.size;
  }

  /// What rank 0 was to bring.
  Result<Blob> hear(const std::string& topic, const std::string& what) {
    return time.awaiting([&] { return exchange.hear(topic, 0, what, time.deadline()); });
  }
  Result<std::vector<Blob>> hear_all(const std::string& topic) {
    return time.awaiting([&] { return exchange.hear_all(topic, time.gather_end()); });
  }
  /// Leaves what this rank found out, or why it could not.
  Status say(const std::string& topic, const Result<Blob>& found) {
    return exchange.say(topic, found.ok() ? found.value() : Blob::failure(found.status()));
  }

  const Config& config;
  const GroupInfo& group;
  StoreExchange exchange;
  OpeningTime time;
  HostMemory memory;
  Agreed agreed;
  std::vector<SwitchAddress> switches;  // where sessions are opened: at least one, once it is agreed
  bool watched = false;                 // by another session of the same ranks
  bool one_host = false;                // on rank 0
  /// Of this rank's host, with port 0, as the other hosts reach it; an error: why they do not.
  Result<Endpoint> own_address = literal_address("127.0.0.1", 0);
  bool faults = false;             // on rank 0: some rank is to have some
  std::vector<std::string> hosts;  // by rank, on rank 0; and their processors
  std::vector<ProcessorShare> processors;
  std::vector<int> switch_ranks;  // ranks that host a switch, on rank 0
};

}  // namespace switchml
