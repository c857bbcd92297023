#include <algorithm>
#include <utility>

#include "path/path_check.h"
#include "session/settle.h"

namespace switchml {

namespace {

Result<Blob> checked_path(Opening& opening, const Joined& joined) {
  size_t least = joined.session().payload_bytes;
  const bool speaks = joined.plan.speaks(opening.group.rank);
  for (size_t i = 0; speaks && i < joined.plan.sessions.size(); ++i) {
    const auto passes = check_path(joined.links.link(i, 0), joined.plan.sessions[i], opening.time.stage_end(0.98));
    if (!passes.ok()) return passes.status();
    least = std::min(least, passes.value());
  }
  return payload_report(least);
}

Result<Blob> least_of_all(Opening& opening, const Joined& joined, const std::string& topic) {
  const auto paths = opening.hear_all(topic);
  if (!paths.ok()) return paths.status();
  const auto least = least_payload(paths.value(), joined.session().payload_bytes, opening.group.name);
  return least.ok() ? Result<Blob>(payload_report(least.value())) : least.status();
}

// What passes between the switches and every rank.
Result<size_t> compare_paths(Opening& opening, const Joined& joined) {
  const std::string passes = joined.topic("passes"), payload = joined.topic("payload");
  if (Status status = opening.say(passes, checked_path(opening, joined)); !status.ok()) return status;
  const auto said = opening.by_rank_0(payload, "say which payload passes on all paths",  // [PATH-9]
                                      [&] { return least_of_all(opening, joined, passes); });
  return said.ok() ? read_payload(said.value()) : said.status();
}

}  // namespace

Result<Joined> settle_payload(Opening& opening, const PlanTerms& terms, PlanMaker& maker, Joined joined) {
  const auto passes = compare_paths(opening, joined);
  if (passes.ok() && passes.value() >= joined.session().payload_bytes) return joined;  // [PATH-10]
  joined.leave();
  if (!passes.ok()) return passes.status();
  const auto make_plan = [&](Links* links) { return maker.with_payload(*links, passes.value()); };  // [PATH-10]
  auto other = open_and_join(opening, terms, std::move(joined.links), joined.number + 1, make_plan);
  return other.ok() ? settle_payload(opening, terms, maker, std::move(other.value())) : std::move(other);
}

}  // namespace switchml
