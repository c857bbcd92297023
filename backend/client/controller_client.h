// Rank 0's requests to a controller (docs/controller.md), free of RPC, which Python implements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace switchml {

/// The network addresses of each rank's host, literal, the preferred one first. Index: rank.
using RankAddresses = std::vector<std::vector<std::string>>;

/// The switches of one share of the tensors.
struct LocatedShare {
  uint32_t weight = 1;
  std::vector<std::string> switches;  // Rank -> "ADDRESS:PORT".
  uint64_t tree_id = 0;               // Id of the planned tree; 0: not planned.
};

class ControllerClient {
 public:
  virtual ~ControllerClient() = default;

  // Both answer by `deadline`. An error names the controller and the remedy: kUnavailable (no answer, or not now),
  // kInvalidArgument (never granted).

  /// One share or several, each for a session of its own.
  virtual Result<std::vector<LocatedShare>> locate(const RankAddresses& ranks, Time deadline) = 0;
  /// Opens the session of a share for all ranks. `group` is its name, for people. `replaced`: the session that it
  /// replaces, which no quota counts; job 0: none.
  virtual Result<wire::OpenReply> open(const wire::Open& asked, const RankAddresses& ranks, size_t share,
                                       const std::string& group, const wire::Membership& replaced, Time deadline) = 0;
};

}  // namespace switchml
