// What rank 0 asks of a controller (docs/controller.md). The way there is the caller's: sessions know no RPC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace switchml {

/// The network addresses of each rank's host, in order of ranks; literal, the preferred one first.
using RankAddresses = std::vector<std::vector<std::string>>;

/// Where ranks come for one share of their tensors, in order of ranks: "ADDRESS:PORT".
struct LocatedShare {
  uint32_t weight = 1;
  std::vector<std::string> switches;
  uint64_t tree_id = 0;  // another planned tree has another one; 0: not planned
};

class ControllerClient {
 public:
  virtual ~ControllerClient() = default;

  // Both answer by `deadline`. An error names the controller and says what to do: kUnavailable (no answer, or not now),
  // kInvalidArgument (never).

  /// One share or several, each of which wants a session of its own.
  virtual Result<std::vector<LocatedShare>> locate(const RankAddresses& ranks, Time deadline) = 0;
  /// Opens the session of a share for all ranks. `group` is its name, for people. `replaced`: the session that they
  /// leave for it, which no quota counts; of job 0: none.
  virtual Result<wire::OpenReply> open(const wire::Open& asked, const RankAddresses& ranks, size_t share,
                                       const std::string& group, const wire::Membership& replaced, Time deadline) = 0;
};

}  // namespace switchml
