// How rank 0 opens sessions with the group's switches, and what it says of them to all ranks: the topics "plan",
// "slots" and "instead" of agreement.h.
#pragma once

#include <string>
#include <vector>

#include "session/grants.h"
#include "session/links.h"
#include "session/opening.h"
#include "session/place.h"

namespace switchml {

/// On rank 0: opens sessions with the switches, and writes the plans that all ranks read.
class PlanMaker {
 public:
  /// Borrows both.
  PlanMaker(Opening& opening, const Place& place) : opening_(opening), place_(place) {}

  /// The first plan, from what all ranks say of their paths. `links` are over TCP afterwards where nothing else passes.
  Result<Blob> first(Links* links);
  /// Sessions in the place of those with a payload that does not pass.
  Result<Blob> with_payload(const Links& links, size_t payload);
  /// Sessions beside those that there are, where the switches have room; else an empty plan, with which
  /// the ranks stay.
  Blob another(const Links& links, size_t payload, int slots, Carrier over);

 private:
  using Grants = std::vector<wire::OpenReply>;
  const Config& config() const { return opening_.config; }
  const std::string& group() const { return opening_.group.name; }
  Status choose_workers(const std::vector<Blob>& paths);
  void warn_of_small_packets(size_t payload) const;
  void offer_carriers(const Grants& granted, bool leaves_host, Blob* plan) const;
  Result<Blob> by_tcp_alone(const std::string& path, Links* links);
  SessionWish wish(const Links& links, size_t payload, int slots, Carrier over) const;
  Result<Grants> open_sessions(const Links& links, const SessionWish& wish, bool insists);
  Status give_back(const Links& links, const Grants& granted, const Status& why) const;
  void advise(const wire::Open& asked, const wire::OpenReply& granted) const;
  Result<wire::OpenReply> open_session(const Links& links, size_t number, const wire::Open& asked);
  Result<wire::OpenReply> ask(const Links& links, size_t number, const wire::Open& asked, Time end, bool* may_change);
  Blob plan_of(const Grants& granted) const;
  std::vector<int> busy_threads(size_t switches) const;

  Opening& opening_;
  const Place& place_;
  bool of_hosts_ = false;  // The workers are hosts.
  uint64_t opens_ = 0;     // Rounds of open_sessions().
};

}  // namespace switchml
