#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "path/path_check.h"
#include "session/settle.h"

namespace switchml {

namespace {

// Pairs give up after half a second; other ranks may be as late.
constexpr Duration kCardPatience = seconds(3);

Status reach_by_card(Opening& opening, const PlanTerms& terms, Joined* joined) {
  if (Status status = connect_as_planned(terms, joined); !status.ok()) return status;
  const Time end = std::min(opening.time.stage_end(0.9), monotonic_now() + kCardPatience);
  if (Status status = join_sessions(opening, *joined, end); !status.ok()) return status;
  const bool speaks = joined->plan.speaks(opening.group.rank);
  for (size_t i = 0; speaks && i < joined->plan.sessions.size(); ++i) {
    const Status status = check_path(joined->links.link(i, 0), joined->plan.sessions[i], end).status();
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<Joined> settle_cards(Opening& opening, const PlanTerms& terms, PlanMaker& maker, const Blob& plan, Links links,
                            int number, const SessionParameters& before, bool tcp_is_better) {
  const std::string names = links.names();
  const std::string reached = Joined::topic_of("reached", number), topic = Joined::topic_of("instead", number);
  auto read = read_plan(plan, terms, links.switches);
  if (!read.ok()) return read.status();
  Joined joined(std::move(read.value()), std::move(links), number);
  Blob mine;
  mine.set("why", reach_by_card(opening, terms, &joined).message());
  if (Status status = opening.say(reached, mine); !status.ok()) return status;
  // A plan without "more": all cards reach all switches.
  const auto plan_instead = [&]() -> Result<Blob> {
    const auto reports = opening.hear_all(reached);
    if (!reports.ok()) return reports.status();
    const std::string why = HostMemory::first_without(reports.value());
    if (why.empty()) return Blob();
    SWITCHML_LOG(kWarning) << opening.group.name << ": cards are there, but RDMA does not work (" << why << "). "
                           << (tcp_is_better ? "TCP" : "UDP") << " is used; SWITCHML_TRANSPORT=udp does not try cards";
    const Blob other = tcp_is_better
                           ? maker.another(joined.links, kMaxPayloadBytes, opening.config.slots, Carrier::kTcp)
                           : maker.another(joined.links, before.payload_bytes, before.slots, Carrier::kPackets);
    if (other.text("more") == "1") return other;
    return Status(Code::kUnavailable, "RDMA does not work (" + why + "), and " + names +
                                          " had no room for another session: SWITCHML_TRANSPORT=udp does not try it");
  };
  const auto instead = opening.by_rank_0(topic, "say whether cards reach " + names, plan_instead);
  if (instead.ok() && instead->text("more") != "1") return joined;
  joined.leave();
  if (!instead.ok()) return instead.status();
  return join_all(opening, terms, instead.value(), std::move(joined.links), number + 1);
}

}  // namespace switchml
