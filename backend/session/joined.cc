#include "session/joined.h"

#include <utility>

namespace switchml {

namespace {

constexpr Duration kTellTime = milliseconds(100);

}  // namespace

void Joined::leave() {
  if (!plan.sessions.empty()) switchml::leave(plan.sessions, monotonic_now() + kLeaveTime);
  plan.sessions.clear();
}

std::string Joined::topic_of(const std::string& name, int number) {
  return number == 0 ? name : name + "/" + std::to_string(number);
}

Status connect_as_planned(const PlanTerms& terms, Joined* joined) {
  const int rank = terms.group.rank;
  const Carrier over = joined->plan.carrier;
  if (!joined->plan.sends(rank)) joined->links.transports.clear();
  if (!joined->plan.sends(rank) || over == joined->links.carrier()) return {};
  return joined->links.connect(terms.config, rank, over);
}

Status join_sessions(Opening& opening, const Joined& joined, Time end) {
  const Links& links = joined.links;
  for (size_t i = 0; i < links.switches.size(); ++i) {
    for (size_t shard = 0; shard < links.own_shards(); ++shard) {
      const int number = joined.plan.first_shard(opening.group.rank) + static_cast<int>(shard);
      const Status status = join_shard(links.link(i, shard), joined.plan.sessions[i], number, end,
                                       [&] { return opening.exchange.ended(); });
      if (!status.ok()) return status;
    }
  }
  return {};
}

Result<Joined> join_all(Opening& opening, const PlanTerms& terms, const Blob& plan, Links links, int number) {
  auto read = read_plan(plan, terms, links.switches);
  if (!read.ok()) return read.status();
  Joined joined(std::move(read.value()), std::move(links), number);
  if (Status status = connect_as_planned(terms, &joined); !status.ok()) return status;
  Status mine = join_sessions(opening, joined, opening.time.stage_end(0.95));
  if (!mine.ok()) mine = opening.exchange.cause_of(mine, opening.time.gather_end() - kTellTime);
  const std::string topic = joined.topic("joined");
  if (Status status = opening.say(topic, mine.ok() ? Result<Blob>(Blob()) : Result<Blob>(mine)); !status.ok())
    return status;
  const auto all = opening.by_rank_0(joined.topic("met"), "say that all ranks have joined", [&]() -> Result<Blob> {
    const auto heard = opening.hear_all(topic);
    return heard.ok() ? Result<Blob>(Blob()) : heard.status();
  });
  return all.ok() ? Result<Joined>(std::move(joined)) : all.status();
}

Result<Joined> open_and_join(Opening& opening, const PlanTerms& terms, Links links, int number,
                             const std::function<Result<Blob>(Links*)>& make_plan) {
  const auto plan = opening.by_rank_0(Joined::topic_of("plan", number), "open a session with " + links.names(),
                                      [&] { return make_plan(&links); });
  return plan.ok() ? join_all(opening, terms, plan.value(), std::move(links), number) : plan.status();
}

}  // namespace switchml
