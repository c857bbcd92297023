#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "path/path_speed.h"
#include "session/settle.h"
#include "transport/tcp_reach.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

// A kernel repeats what asks for a connection after a second.
constexpr Duration kTcpPatience = milliseconds(1500);
// Mbit/s, of a rank with a processor to itself, from which on datagrams are limited by the processor and not by the
// link (docs/performance.md).
constexpr double kFastLink = 1500;  // [RATE-7]

Result<Blob> measured_paths(Opening& opening, const Joined& joined) {
  if (!joined.plan.speaks(opening.group.rank)) return Blob();
  const Links& links = joined.links;
  std::vector<TimedLink> timed;
  for (size_t i = 0; i < links.switches.size(); ++i) {
    timed.push_back({&links.link(i, 0), &joined.plan.sessions[i], udp_path(links.switches[i].endpoint).on_host});
  }
  auto speed = measure_paths(timed, opening.time.stage_end(0.98));
  if (!speed.ok()) return speed.status();
  // Ranks that share a processor are at its limit at a lower rate. [RATE-8]
  const MachineRanks& local = joined.plan.local;
  speed->rate *= std::max(1.0, static_cast<double>(local.count) / std::max(1, local.processors));
  // Also where its own links are slow: most of the others' may be fast.
  const std::string no_tcp =
      joined.plan.may_take_tcp ? why_no_tcp(links.endpoints(), monotonic_now() + kTcpPatience) : "";
  const std::string no_card = joined.plan.may_take_rdma ? why_no_rdma(opening.config, links.endpoints()) : "";
  return speed_report(speed.value(), links.link(0, 0).limits().receive_buffer_bytes, no_tcp, no_card);
}

void log_speed(const std::string& group, const PathNeeds& needs, const SpeedTerms& terms) {
  const bool fast = terms.may_take_tcp && needs.rate >= kFastLink;
  SWITCHML_LOG(kInfo) << group << ": links carry about " << needs.rate << " Mbit/s for each processor (0: not known), "
                      << (!fast                      ? "for which UDP is the better one"
                          : needs.why_no_tcp.empty() ? "for which TCP is the better one"
                                                     : "but no TCP " + needs.why_no_tcp)
                      << (terms.has_time ? "" : "; it is late for another session");
  if (terms.has_time && terms.may_take_rdma && !needs.why_no_rdma.empty())
    SWITCHML_LOG(kInfo) << group << ": no RDMA: " << needs.why_no_rdma;
}

// A plan without "more": the slots that there are stay.
Blob plan_with_slots(const std::string& group, PlanMaker& maker, const Joined& joined, const PathNeeds& needs) {
  const SessionParameters& p = joined.session();
  const int slots = slots_for(needs.chunks, needs.queue_bytes, p);
  SWITCHML_LOG(kInfo) << group << ": " << needs.chunks << " chunks fill the paths (0: not known), for which " << p.slots
                      << " slots " << (slots == p.slots ? "do" : "are few");
  if (slots <= p.slots) return {};
  Blob plan = maker.another(joined.links, p.payload_bytes, slots, Carrier::kPackets);
  SessionParameters offered = p;
  if (plan.text("more") != "1" || !read_grant(plan.inner(session_key(0)), &offered).ok()) return {};
  if (offered.slots > p.slots && offered.payload_bytes == p.payload_bytes) return plan;  // [RATE-6]
  leave({offered}, monotonic_now() + kLeaveTime);
  SWITCHML_LOG(kInfo) << group << ": the switch has no more slots";
  return {};
}

Blob better_plan(Opening& opening, PlanMaker& maker, const Joined& joined, const PathNeeds& needs,
                 SpeedChoice::Exchange exchange) {
  const auto over = [&](Carrier carrier) {
    return maker.another(joined.links, kMaxPayloadBytes, opening.config.slots, carrier);
  };
  switch (exchange) {
    case SpeedChoice::Exchange::kNone: break;
    case SpeedChoice::Exchange::kForRdma: return over(Carrier::kRdma);
    case SpeedChoice::Exchange::kForTcp: return over(Carrier::kTcp);
    case SpeedChoice::Exchange::kForSlots: return plan_with_slots(opening.group.name, maker, joined, needs);
  }
  return {};
}

}  // namespace

SpeedChoice choose_by_speed(const PathNeeds& needs, const SpeedTerms& terms) {
  SpeedChoice choice;
  choice.tcp_is_better = terms.may_take_tcp && needs.rate >= kFastLink && needs.why_no_tcp.empty();
  if (!terms.has_time) return choice;
  if (terms.may_take_rdma && needs.why_no_rdma.empty()) {
    choice.exchange = SpeedChoice::Exchange::kForRdma;
  } else if (choice.tcp_is_better) {
    choice.exchange = SpeedChoice::Exchange::kForTcp;
  } else if (terms.may_want_slots) {
    choice.exchange = SpeedChoice::Exchange::kForSlots;
  }
  return choice;
}

Result<Joined> settle_speed(Opening& opening, const PlanTerms& terms, PlanMaker& maker, Joined joined) {
  // Several switches have windows enough together.
  const bool may_want_slots = opening.config.slots == 0 && joined.links.is_alone();  // [RATE-1]
  const Plan& plan = joined.plan;
  if (!may_want_slots && !plan.may_take_tcp && !plan.may_take_rdma) return joined;
  const std::string speed = joined.topic("speed"), slots = joined.topic("slots");
  if (Status status = opening.say(speed, measured_paths(opening, joined)); !status.ok()) return status;
  SpeedChoice choice;  // On rank 0.
  const auto choose = [&]() -> Result<Blob> {
    const auto reports = opening.hear_all(speed);
    if (!reports.ok()) return reports.status();
    const PathNeeds needs = needs_of_paths(reports.value());
    const bool has_time = monotonic_now() < opening.time.stage_end(0.7);
    const SpeedTerms known{plan.may_take_tcp, plan.may_take_rdma, may_want_slots, has_time};
    log_speed(opening.group.name, needs, known);
    choice = choose_by_speed(needs, known);
    return better_plan(opening, maker, joined, needs, choice.exchange);
  };
  const auto better = opening.by_rank_0(slots, "say how many slots the paths take", choose);
  if (better.ok() && better->text("more") != "1") return joined;
  const SessionParameters before = joined.session();
  joined.leave();
  if (!better.ok()) return better.status();
  Links links = std::move(joined.links);
  if (better->text("carrier") != name_of(Carrier::kRdma))
    return join_all(opening, terms, better.value(), std::move(links), joined.number + 1);
  return settle_cards(opening, terms, maker, better.value(), std::move(links), joined.number + 1, before,
                      choice.tcp_is_better);
}

}  // namespace switchml
