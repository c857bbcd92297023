// What follows where "auto" chooses and paths leave their hosts: a session is exchanged for one that suits the paths.
// Each phase takes the sessions that all ranks have joined, and returns those that all ranks have joined then.
#pragma once

#include "path/path_report.h"
#include "session/joined.h"
#include "session/plan_maker.h"

namespace switchml {

/// A payload that does not pass is exchanged for one that does: the topics "passes" and "payload" of agreement.h.
Result<Joined> settle_payload(Opening& opening, const PlanTerms& terms, PlanMaker& maker, Joined joined);

/// The topics "speed" and "slots". Slots that are too few for paths that are long or fast are exchanged for more of
/// them, and UDP for RDMA where there are cards, or for TCP where links are so fast that the processor is the limit.
/// All of that if the switches have room beside what the ranks hold until then.
Result<Joined> settle_speed(Opening& opening, const PlanTerms& terms, PlanMaker& maker, Joined joined);

/// What rank 0 makes of all ranks' reports of their speed.
struct SpeedChoice {
  enum class Exchange { kNone, kForRdma, kForTcp, kForSlots };
  Exchange exchange = Exchange::kNone;
  bool tcp_is_better = false;  // Than UDP, where no cards are taken.
};
struct SpeedTerms {
  bool may_take_tcp = false;
  bool may_take_rdma = false;
  bool may_want_slots = false;
  bool has_time = false;  // For another session.
};
SpeedChoice choose_by_speed(const PathNeeds& needs, const SpeedTerms& terms);

/// The topics "reached" and "instead". A card that is there need not reach a switch: where one does not, the ranks use
/// packets after all, or TCP. `plan`: of sessions over RDMA. `before`: the session that was left for them. [RATE-10]
Result<Joined> settle_cards(Opening& opening, const PlanTerms& terms, PlanMaker& maker, const Blob& plan, Links links,
                            int number, const SessionParameters& before, bool tcp_is_better);

}  // namespace switchml
