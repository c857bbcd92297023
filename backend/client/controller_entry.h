// The way into a session that a controller grants: where each rank's switch is, and the session itself.
#pragma once

#include <memory>
#include <string>

#include "client/controller_client.h"
#include "engine/engine.h"
#include "store/blob.h"

namespace switchml {

/// What rank 0 of a group knows of its controller.
struct ControllerEntry {
  std::shared_ptr<ControllerClient> client;  // null: the group has none, or this is another rank
  std::string address;                       // of the controller, for messages
  RankAddresses ranks;

  /// For all ranks to read. Answers by `deadline`; a controller that counts ranks differently is kMismatch.
  Result<Blob> places(Time deadline) const;
};

/// Shares of those places, at least one.
Result<size_t> shares_of(const Blob& places);
/// Where the switch of session->worker is for a share, its name, the share's weight and tree.
Status read_place(const Blob& places, size_t share, SessionParameters* session);

}  // namespace switchml
