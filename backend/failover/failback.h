// How a group gets to a switch again that has lost its own, or to the one that a controller has planned. Rank 0 asks
// its switch, or the controller of its switches, for a session. What is granted it offers to all, and every rank joins;
// only when all have joined do they leave what they have. One thread.
//
//   rank 0  back/N/offer  the session; then all vote (failover/vote.h) on back/N
#pragma once

#include <string>

#include "base/config.h"
#include "client/controller_entry.h"
#include "client/switch_entry.h"
#include "store/store_channel.h"
#include "switchd/server.h"

namespace switchml {

/// The number of a share of the group's tensors, and of all shares.
struct ShareNumber {
  size_t number = 0;
  size_t of = 1;
};

class Failback {
 public:
  struct Found {
    SessionParameters session;
    Transports transports;  // joined
  };
  /// `lost` is the session that the group had. Its streams go on in the next one: slots and payload must be the same.
  /// `own`: the switch of `lost` if it runs in this process, or null. Borrows it, configuration, channel, controller.
  Failback(const Config& config, const GroupInfo& group, const SessionParameters& lost, StoreChannel& channel,
           const ControllerEntry& controller, SwitchServer* own = nullptr, ShareNumber share = {});

  /// What the ranks say of an attempt: what is offered, and what they vote on.
  static std::string vote_topic(int attempt);
  static std::string offer_topic(int attempt);

  /// Rank 0: asks the switch, or the controller where there is one, by `deadline`.
  Status offer(int attempt, Time deadline);
  /// Every rank, after the offer: joins, and waits for what rank 0 decides. An error is one on all ranks that can still
  /// talk.
  Result<Found> take(int attempt);

 private:
  Result<Blob> ask(Time deadline) const;
  Result<wire::OpenReply> open(const wire::Open& asked, Time deadline) const;
  Status read(const Blob& offer, SessionParameters* session) const;
  Status join(Found* found) const;

  const Config& config_;
  const GroupInfo group_;
  const SessionParameters lost_;
  StoreChannel& channel_;
  const ControllerEntry& controller_;
  SwitchServer* const own_;
  const ShareNumber share_;
};

}  // namespace switchml
