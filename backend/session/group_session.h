// A session of one kind: with a switch, with several, in memory, or with the ranks' hosts. Session::open puts two of
// them together where that serves (session/paired_session.h).
#pragma once

#include <functional>
#include <memory>

#include "session/session.h"

namespace switchml {

struct GroupSessionOptions {
  std::shared_ptr<ControllerClient> controller;
  /// Why the opening is of no use any more, or ok; null: never.
  std::function<Status()> ended;
  /// Another session of these ranks watches over them, so this one does not.
  bool watched = false;
  /// Told when the engine gives up, from one of its threads, or from the one that ends it.
  std::function<void(const Status&)> on_failure;
};

/// As Session::open, of a group whose size and rank are right.
Result<std::unique_ptr<Session>> open_group_session(const Config& config, const GroupInfo& group, Rendezvous& store,
                                                    Time deadline, GroupSessionOptions options);

}  // namespace switchml
