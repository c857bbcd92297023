// How a group that goes on without its switch gets to one again. Rank 0 asks its switch, or the controller of its
// switches, for a session from time to time. What is granted it offers to all, and every rank joins; only when all have
// joined do they leave what they have. One thread.
//
//   rank 0     back/N/offer    the session
//   each rank  back/N/joined   ok, or why it could not
#pragma once

#include "base/config.h"
#include "client/controller_entry.h"
#include "client/switch_entry.h"
#include "store/store_channel.h"
#include "switchd/server.h"

namespace switchml {

class Failback {
 public:
  struct Found {
    SessionParameters session;
    Transports transports;  // joined
  };
  /// `lost` is the session that the group had, whose streams go on in the next: slots and payload must be the same.
  /// `own`: the switch of `lost` if it runs in this process, or null. Borrows it, configuration, channel, controller.
  Failback(const Config& config, const GroupInfo& group, const SessionParameters& lost, StoreChannel& channel,
           const ControllerEntry& controller, SwitchServer* own = nullptr);

  /// Rank 0: asks the switch, or the controller where there is one, by `deadline`.
  Status offer(int attempt, Time deadline);
  /// Every rank, after the offer: joins, and waits for the others. An error is one on all ranks that can still talk.
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
};

}  // namespace switchml
