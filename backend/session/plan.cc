#include "session/plan.h"

#include <utility>

#include "base/limits.h"
#include "path/payload.h"

namespace switchml {

namespace {

// What the sessions have in common.
Result<SessionParameters> common_parameters(const Blob& said, const PlanTerms& terms, const HostLayout& hosts) {
  SessionParameters common;
  common.worker = terms.group.rank;
  common.workers = terms.group.size;
  common.shards = terms.config.shards;
  common.significant_bits = terms.config.significant_bits;
  common.own_address = terms.own_address;
  common.seals_ranks = terms.seals_ranks;
  common.controlled = !terms.config.controller.empty();
  if (hosts.ranks() > 0) {
    common.worker = hosts.host_of(terms.group.rank);
    common.workers = hosts.hosts();
    common.ranks = hosts.ranks();
    common.worker_names = hosts.names();
    common.shards = hosts.owners();
  }
  if (said.number("secret0", UINT64_MAX, &common.secret[0]) && said.number("secret1", UINT64_MAX, &common.secret[1]))
    return common;
  return Status(Code::kMismatch, "rank 0 sent no secret: install the same switchml on all ranks");
}

Carrier read_carrier(const std::string& name, Carrier otherwise) {
  for (const Carrier one : {Carrier::kPackets, Carrier::kTcp, Carrier::kRdma}) {
    if (name == name_of(one) && name != name_of(otherwise)) return one;
  }
  return otherwise;
}

// Sums of floats travel exactly where hosts or trees add them on the way [PART-1]. A controller may move a session to a
// tree, if it is planned or comes back from a failover.
Status let_sums_travel_exactly(const HostLayout& hosts, bool fallback, std::vector<SessionParameters>* sessions) {
  size_t ranks = hosts.ranks() > 0 ? static_cast<size_t>(hosts.most()) : 0;
  for (const SessionParameters& session : *sessions) {
    const bool may_move = session.tree_id != 0 || (session.controlled && fallback);
    if (session.tree || may_move) ranks = kMaxWorkers;
  }
  for (SessionParameters& session : *sessions) {
    session.partial_sum_ranks = ranks;
    if (ranks == 0 || session.payload_bytes >= kMinPartialSumPayload) continue;
    return {Code::kInvalidArgument, "SWITCHML_PRECISION=\"exact\" cannot be had: a payload of " +
                                        std::to_string(session.payload_bytes) + " bytes is too short, at least " +
                                        std::to_string(kMinPartialSumPayload) + " are needed"};
  }
  return {};
}

}  // namespace

std::string session_key(size_t number) { return "session/" + std::to_string(number); }

Result<Plan> read_plan(const Blob& said, const PlanTerms& terms, std::vector<SwitchAddress> switches) {
  Plan plan;
  plan.carrier = read_carrier(said.text("carrier"), switches.front().endpoint.carrier);
  if (!said.text("hosts").empty()) plan.hosts = terms.hosts;
  const auto common = common_parameters(said, terms, plan.hosts);
  if (!common.ok()) return common.status();
  for (size_t i = 0; i < switches.size(); ++i) {
    SessionParameters session = common.value();
    session.switch_endpoint = with_carrier(switches[i].endpoint, plan.carrier);
    session.switch_name = switches[i].name;
    session.seal = switches[i].seal;
    session.weight = switches[i].weight;
    session.tree_id = switches[i].tree_id;
    if (static_cast<size_t>(session.workers) == switches.size()) session.beside = switches[i].host;
    if (Status status = read_grant(said.inner(session_key(i)), &session); !status.ok()) return status;
    session.least_chunk_bytes = session.exact && !may_lose_frames(plan.carrier) ? kLeastTcpChunk : 0;
    plan.sessions.push_back(std::move(session));
  }
  if (terms.config.precision == Precision::kExact) {
    if (Status status = let_sums_travel_exactly(plan.hosts, terms.config.fallback, &plan.sessions); !status.ok())
      return status;
  }
  plan.checks_paths = said.text("check") == "1";
  plan.may_take_tcp = said.text("tcp") == "1";
  plan.may_take_rdma = said.text("rdma") == "1";
  plan.local = read_neighbours(said, terms.group.rank);
  plan.watch_meeting = WatchMeeting::read(said);
  return plan;
}

}  // namespace switchml
