// The way into a session that a controller grants: the address of each rank's switch, and the session itself.
#pragma once

#include <memory>
#include <string>

#include "client/controller_client.h"
#include "engine/engine.h"
#include "store/blob.h"

namespace switchml {

/// Rank 0's access to the group's controller.
struct ControllerEntry {
  std::shared_ptr<ControllerClient> client;  // Null: the group has none, or this is another rank.
  std::string address;                       // The controller's, for messages.
  RankAddresses ranks;

  /// The switches, for all ranks to read. Returns by `deadline`. kMismatch: the controller has another number of ranks.
  Result<Blob> places(Time deadline) const;
};

/// The number of shares in those places, at least one.
Result<size_t> shares_of(const Blob& places);
/// Sets address and name of the switch of session->worker for a share, and the share's weight and tree.
Status read_place(const Blob& places, size_t share, SessionParameters* session);

}  // namespace switchml
