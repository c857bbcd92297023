#include "session/agreement.h"

#include <optional>
#include <utility>

#include "session/hello.h"
#include "session/joined.h"
#include "session/links.h"
#include "session/opening.h"
#include "session/place.h"
#include "session/plan_maker.h"
#include "session/settle.h"
#include "shm/board.h"

namespace switchml {

namespace {

constexpr Duration kPartTime = seconds(2);

// A group on one host that needs no switch.
Agreed agreed_in_memory(const GroupInfo& group, Place& place) {
  const shm::BoardShape shape = shm::shape_for(group.size);
  SessionParameters session;
  session.worker = group.rank;
  session.workers = group.size;
  session.switch_name = "memory of this host";
  session.payload_bytes = shape.chunk_bytes;
  session.slots = shape.slots;
  session.seals_ranks = place.seals.ranks;
  if (place.own_address.ok()) session.own_address = place.own_address.value();
  Agreed agreed;
  agreed.sessions = {session};
  agreed.memory = std::move(place.memory);
  agreed.local = place.local;
  agreed.watch_meeting = std::move(place.watch_meeting);
  return agreed;
}

// Where "auto" chooses and paths leave their hosts.
Result<Joined> suit_paths(Opening& opening, const PlanTerms& terms, PlanMaker& maker, Joined joined) {
  if (!joined.plan.checks_paths) return joined;
  auto passing = settle_payload(opening, terms, maker, std::move(joined));
  return passing.ok() ? settle_speed(opening, terms, maker, std::move(passing.value())) : std::move(passing);
}

Result<Joined> join_switches(Opening& opening, const PlanTerms& terms, const Place& place, WatchMeeting* watch) {
  auto links = find_paths(opening, place);
  if (!links.ok()) return links.status();
  PlanMaker maker(opening, place);
  auto joined =
      open_and_join(opening, terms, std::move(links.value()), 0, [&](Links* over) { return maker.first(over); });
  if (!joined.ok()) return joined;
  *watch = std::move(joined->plan.watch_meeting);
  return suit_paths(opening, terms, maker, std::move(joined.value()));
}

Result<Agreed> agree_on_sessions(Opening& opening, Place& place) {
  PlanTerms terms{opening.config, opening.group, place.hosts, {}, place.seals.ranks};
  if (place.own_address.ok()) terms.own_address = place.own_address.value();
  Agreed agreed;
  auto joined = join_switches(opening, terms, place, &agreed.watch_meeting);
  if (!joined.ok()) return joined.status();
  if (opening.group.rank == 0) agreed.watch_meeting = std::move(place.watch_meeting);
  auto memory = place.host_memory->take();
  agreed.hosts = joined->plan.hosts;
  if (agreed.hosts.ranks() > 0) agreed.memory = std::move(memory);
  agreed.sessions = std::move(joined->plan.sessions);
  agreed.transports = std::move(joined->links.transports);
  agreed.local = joined->plan.local;
  agreed.embedded = std::move(place.embedded);
  agreed.controller = place.controller;
  agreed.leaders = place.leaders;
  return agreed;
}

Result<Agreed> come_together(Opening& opening, std::shared_ptr<ControllerClient> controller, OpeningWatch* watch,
                             std::optional<Place>* place) {
  auto hello = hello_of(opening.config, opening.group);
  if (hello.ok() && watch != nullptr) {
    opening.time.awaiting([&] {
      watch->begin(&hello.value());
      return true;
    });
  }
  if (Status status = opening.say("hello", hello); !status.ok()) return status;
  auto found = agree_on_place(opening, std::move(controller), watch == nullptr);
  if (!found.ok()) return found.status();
  place->emplace(std::move(found.value()));
  return (*place)->memory != nullptr ? agreed_in_memory(opening.group, **place) : agree_on_sessions(opening, **place);
}

}  // namespace

Result<Agreed> agree(const Config& config, const GroupInfo& group, Rendezvous& store, Time deadline,
                     std::shared_ptr<ControllerClient> controller, const std::function<Status()>& ended, bool watched) {
  auto watch = watched ? nullptr : std::make_unique<OpeningWatch>(config, group, store);
  Opening opening(config, group, store, deadline);
  std::optional<Place> place;  // The switch in it serves until all have parted.
  opening.exchange.wait_while([&] {
    const Status status = ended ? ended() : Status();
    return status.ok() && watch ? watch->lost() : status;
  });
  if (watch) opening.exchange.use(watch->bell());
  const auto part = [&](Duration patience) {
    if (watch) watch->meet_no_more();
    opening.exchange.part(patience);
  };
  try {
    auto agreed = telling_others(opening.exchange,
                                 [&] { return come_together(opening, std::move(controller), watch.get(), &place); });
    if (!agreed.ok()) {
      part(agreed.status().code() != Code::kTimeout ? kPartTime : Duration(0));
    } else {
      agreed->watch = std::move(watch);
    }
    return agreed;
  } catch (...) {
    part(Duration(0));
    throw;
  }
}

}  // namespace switchml
