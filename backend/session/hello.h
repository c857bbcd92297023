// The first thing that a rank says to its group: what it is, and the settings in which all ranks must be alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "session/host_layout.h"
#include "session/placement.h"
#include "socket/endpoint.h"
#include "store/blob.h"
#include "store/rendezvous.h"

namespace switchml {

/// What this rank says. Errors: a setting of this process that it cannot follow (kernels, affinity, interface), named.
Result<Blob> hello_of(const Config& config, const GroupInfo& group);

/// kMismatch: a rank differs from rank 0; names the rank, the setting and both values. `hellos`: by rank, at least one.
Status compare_hellos(const std::vector<Blob>& hellos);

/// What rank 0 knows of its group from the hellos.
struct Roster {
  std::vector<std::string> hosts;          // Identities, by rank.
  std::vector<ProcessorShare> processors;  // By rank.
  HostLayout layout;
  /// By host, with port 0. None where the ranks are on one host; an error where the hosts do not reach each other.
  Result<std::vector<Endpoint>> addresses = std::vector<Endpoint>();
  bool faults = false;  // Some rank injects them.
  /// kAuto: no rank says otherwise.
  Encryption encryption = Encryption::kAuto;
  std::optional<int> without_aes;  // The first rank on a processor without instructions for it.

  bool one_host() const { return layout.hosts() == 1; }
  /// Tells each rank what it shares its machine with; `threads`: busy ones, by rank.
  void write_neighbours(const std::vector<int>& threads, Blob* blob) const;
};
/// An error names the first rank with other settings than rank 0's, or with a host that does not suit them.
Result<Roster> read_hellos(const Config& config, const std::vector<Blob>& hellos);
/// What Roster::write_neighbours tells this rank.
MachineRanks read_neighbours(const Blob& blob, int rank);

}  // namespace switchml
