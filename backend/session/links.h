// This rank's links to its group's switches, and what it says of the paths that they take: the topic "path" of
// agreement.h.
#pragma once

#include <string>
#include <vector>

#include "client/switch_entry.h"
#include "session/opening.h"
#include "session/place.h"

namespace switchml {

/// All over one carrier, and with one key or none.
struct Links {
  std::vector<SwitchAddress> switches;  // At least one. Their endpoints say the carrier.
  Transports transports;  // Switch after switch, one per shard of this rank. None: other ranks of its host send.

  bool is_alone() const { return switches.size() == 1; }
  Carrier carrier() const { return switches.front().endpoint.carrier; }
  std::vector<Endpoint> endpoints() const;
  size_t own_shards() const { return transports.size() / switches.size(); }
  Transport& link(size_t number, size_t shard) const { return *transports[number * own_shards() + shard]; }
  /// For messages.
  std::string names() const;

  /// Connects this rank to the switches; on an error the transports stay as they are.
  Status connect(const Config& config, int rank, Carrier over);
};

/// The phase after "switch". All ranks know of an error of this one's paths from "path"; what is returned then has no
/// transports.
Result<Links> find_paths(Opening& opening, const Place& place);

}  // namespace switchml
