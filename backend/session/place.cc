#include "session/place.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "socket/address.h"
#include "socket/sockaddr.h"

namespace switchml {

namespace {

constexpr const char* kNone = "none";  // no address

class PlaceAgreement {
 public:
  PlaceAgreement(Opening& opening, std::shared_ptr<ControllerClient> controller, bool watched)
      : opening_(opening), watched_(watched) {
    const Config& config = opening.config;
    place_.host_memory = std::make_unique<HostMemory>(opening.group, opening.exchange, config.connect_timeout,
                                                      opening.time.gather_end());
    if (is_rank_0() && !config.controller.empty()) place_.controller = {std::move(controller), config.controller, {}};
  }

  Result<Place> run() {
    const Time begin = monotonic_now();
    auto blob = opening_.by_rank_0("switch", "find a switch", [this] { return provide_place(); });
    const Time now = monotonic_now();
    if (!blob.ok() && now >= opening_.time.deadline())
      return opening_.exchange.who_is_missing("hello", now - begin, blob.status());
    if (!blob.ok()) return blob.status();
    Status status = opening_.time.awaiting([&] { return opening_.exchange.ended(); });
    if (status.ok()) status = read(blob.value());  // Rank 0 is to know this one from now on.
    return status.ok() ? Result<Place>(std::move(place_)) : status;
  }

 private:
  bool is_rank_0() const { return opening_.group.rank == 0; }

  Status read(const Blob& blob) {
    read_own_address(blob);
    if (Status status = read_seals(blob); !status.ok()) return status;
    if (!blob.text("memory").empty()) return share_memory(blob);
    const std::string each = blob.text("each_host");
    Status status = each.empty() ? read_switch(blob) : serve_on_each_host(each);
    if (status.ok()) status = read_standby(blob.text("standby"));
    if (!status.ok()) return status;
    return blob.text("hosts").empty() ? Status() : share_on_hosts(blob.text("hosts"));
  }

  Status read_switch(const Blob& blob) {
    if (!opening_.config.controller.empty()) {
      const auto shares = shares_of(blob);
      if (!shares.ok()) return shares.status();
      for (size_t share = 0; share < shares.value(); ++share) {
        SessionParameters there;
        there.worker = opening_.group.rank;
        if (Status status = read_place(blob, share, &there); !status.ok()) return status;
        SwitchAddress at;
        at.endpoint = there.switch_endpoint;
        at.name = there.switch_name;
        at.weight = there.weight;
        at.tree_id = there.tree_id;
        if (Status status = take_place(std::move(at)); !status.ok()) return status;
      }
      return {};
    }
    uint64_t count = 0;
    if (!blob.number("switches", kMaxWorkers, &count) || count == 0) {
      return {Code::kMismatch, "rank 0 announced no switch: install the same switchml on all ranks"};
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (Status status = take_place(read_switch_address(blob.inner("switch/" + std::to_string(i)))); !status.ok())
        return status;
    }
    return {};
  }

  // One socket serves them all.
  Status take_place(Result<SwitchAddress> place) {
    if (!place.ok()) return place.status();
    const auto& switches = place_.switches;
    if (!switches.empty() && family_of(switches.front().endpoint) != family_of(place->endpoint)) {
      return {Code::kInvalidArgument, "switches " + switches.front().name + " and " + place->name +
                                          " have addresses of IPv4 and of IPv6: name interfaces that have addresses "
                                          "of one of them (SWITCHML_INTERFACE)"};
    }
    if (!place->seal && place_.seals.switches) place->seal = seal_;
    if (!place->seal && place_.seals.switches) {
      return {Code::kMismatch, "switch " + place->name + " was announced without a key, though links to switches are " +
                                   "encrypted: install the same switchml on all ranks"};
    }
    place_.switches.push_back(std::move(place.value()));
    return {};
  }

  Result<Blob> provide_place() {
    auto hellos = opening_.hear_all("hello");
    if (!hellos.ok()) return hellos.status();
    auto roster = read_hellos(opening_.config, hellos.value());
    if (!roster.ok()) return roster.status();
    place_.roster = std::move(roster.value());
    const auto& addresses = place_.roster.addresses;
    if (!one_host()) place_.own_address = addresses.ok() ? Result<Endpoint>(addresses.value()[0]) : addresses.status();
    if (!watched_) place_.watch_meeting = WatchMeeting::offer(place_.own_address, opening_.group.name);
    auto seals = choose_seals(opening_.config, place_.roster, opening_.group.name);
    if (!seals.ok()) return seals.status();
    place_.seals = seals.value();
    if (place_.seals.switches && !names_switches(opening_.config)) seal_ = random_seal_key();
    auto place = find_place(hellos.value());
    if (place.ok()) place_.seals.write(&place.value());
    return place;
  }
  Result<Blob> find_place(const std::vector<Blob>& hellos) {
    const Config& config = opening_.config;
    const HostLayout& layout = place_.roster.layout;
    if (!config.controller.empty()) return for_all(ask_controller(hellos));
    if (config.switch_address.empty() && in_memory() && !place_.roster.faults) return offer_or_host();
    auto place = !config.switch_address.empty()              ? name_switches()
                 : layout.hosts() > 1 && wants_exact(config) ? each_host(layout)
                                                             : host_switch();
    if (place.ok() && wants_hosts(config, layout, place_.roster.faults)) place->set("hosts", layout.text());
    return for_all(std::move(place));
  }
  bool one_host() const { return place_.roster.one_host(); }
  // What hosts add beside a switch that is reached by cards stays in memory where they are one: ranks of one host meet
  // at loopback, and no card has its address.
  bool in_memory() const {
    const Config& config = opening_.config;
    return wants_memory(config, one_host()) || (watched_ && one_host() && config.transport == "rdma");
  }

  // Adds what does not depend on the switch: the hosts with which the group goes on when it is lost, and where each
  // rank's host is reached.
  Result<Blob> for_all(Result<Blob> place) const {
    const HostLayout& layout = place_.roster.layout;
    const auto& addresses = place_.roster.addresses;
    if (place.ok() && opening_.config.fallback) place->set("standby", layout.text());
    for (int rank = 0; place.ok() && !one_host() && rank < layout.ranks(); ++rank) {
      const auto host = static_cast<size_t>(layout.host_of(rank));
      place->set(address_key(rank), addresses.ok() ? to_literal(addresses.value()[host]) : kNone);
    }
    return place;
  }

  // ---- encryption ----
  // Every rank has a file with the key of switches that are named. One key is that of all switches in ranks: a rank has
  // one link to them.
  Status read_seals(const Blob& blob) {
    place_.seals = Seals::read(blob);
    if (!place_.seals.switches || seal_) return {};
    if (names_switches(opening_.config)) {
      const auto key = named_key(opening_.config);
      if (key.ok()) seal_ = key.value();
      return key.status();
    }
    if (blob.text("seal").empty()) return {};  // Each switch's address has it.
    const auto key = parse_seal_key(blob.text("seal"));
    if (key.ok()) seal_ = key.value();
    return key.status();
  }

  // ---- where each host is reached ----
  static std::string address_key(int rank) { return "address/" + std::to_string(rank); }

  void read_own_address(const Blob& blob) {
    const std::string text = blob.text(address_key(opening_.group.rank));
    if (!is_rank_0() && !text.empty()) place_.own_address = literal_address(text, 0);
  }

  Status read_standby(const std::string& text) {
    if (text.empty()) return {};
    auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    place_.leaders = layout->leaders();
    return {};
  }

  // ---- memory ----
  Result<Blob> offer_or_host() {
    Blob blob;
    if (Status status = place_.host_memory->offer(arena_bytes(opening_.config, opening_.group.size), &blob);
        !status.ok())
      return instead_of_memory(status.message());
    return blob;
  }

  Result<Blob> instead_of_memory(const std::string& why) {
    if (opening_.config.transport == "shm") return Status(Code::kUnavailable, why);
    SWITCHML_LOG(kWarning) << opening_.group.name << ": its ranks are on one host but cannot share memory (" << why
                           << "); they use a switch in rank 0, which is slower";
    return host_switch();
  }

  Status share_memory(const Blob& offered) {
    if (Status status = opening_.time.awaiting([&] { return place_.host_memory->fetch(offered); }); !status.ok())
      return status;
    auto place =
        opening_.by_rank_0("place", "say whether all ranks share memory", [this] { return conclude_memory(); });
    if (!place.ok()) return place.status();
    auto memory = place_.host_memory->take();
    if (!place->text("switches").empty()) return read_switch(place.value());
    if (memory == nullptr) {
      return {Code::kMismatch,
              "rank 0 says that all ranks share memory, but this one has none: install the same "
              "switchml on all ranks"};
    }
    place_.memory = std::move(memory);
    place_.local = read_neighbours(place.value(), opening_.group.rank);
    if (!is_rank_0()) place_.watch_meeting = WatchMeeting::read(place.value());
    return {};
  }

  Result<Blob> conclude_memory() {
    const auto missing =
        opening_.time.awaiting([&] { return place_.host_memory->missing(opening_.time.gather_end()); });
    if (!missing.ok()) return missing.status();
    if (!missing->empty()) return instead_of_memory(missing.value());
    Blob place;
    place_.roster.write_neighbours(std::vector<int>(place_.roster.hosts.size(), 1), &place);
    place_.watch_meeting.write(&place);
    return place;
  }

  // ---- memory of each host, beside a switch ----
  Status share_on_hosts(const std::string& text) {
    auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    place_.hosts = std::move(layout.value());
    return opening_.time.awaiting([&] {
      place_.host_memory->share(place_.hosts);
      return Status();
    });
  }

  // ---- a switch ----

  Result<Blob> ask_controller(const std::vector<Blob>& hellos) {
    if (place_.controller.client == nullptr) {
      return Status(Code::kInvalidArgument, "SWITCHML_CONTROLLER=\"" + opening_.config.controller +
                                                "\": this program has no client for a controller");
    }
    for (const Blob& hello : hellos) {
      std::istringstream words(hello.text("addresses"));
      place_.controller.ranks.emplace_back(std::istream_iterator<std::string>(words),
                                           std::istream_iterator<std::string>());
    }
    return place_.controller.places(opening_.time.stage_end(0.8));
  }

  Result<Blob> name_switches() {
    auto switches = named_switches(opening_.config, one_host());
    if (!switches.ok()) return switches.status();
    return blob_of(switches.value());
  }

  Result<Blob> host_switch() {
    auto place = start_switch(one_host());
    if (!place.ok()) return place.status();
    place_.switch_ranks = {0};
    return blob_of({place.value()});
  }

  Result<SwitchAddress> start_switch(bool one_host) {
    if (!place_.own_address.ok()) return place_.own_address.status();
    return embedded_switch(opening_.config, place_.own_address.value(), one_host, seal_, opening_.group.name,
                           opening_.group.rank, &place_.embedded);
  }

  static Blob blob_of(const std::vector<SwitchAddress>& switches) {
    Blob blob;
    blob.set("switches", switches.size());
    for (size_t i = 0; i < switches.size(); ++i) {
      Blob one;
      write_switch_address(switches[i], &one);
      blob.put("switch/" + std::to_string(i), one);
    }
    return blob;
  }

  // ---- no switch is named: every host aggregates a part ----

  Result<Blob> each_host(const HostLayout& layout) {
    if (!place_.own_address.ok()) return place_.own_address.status();
    for (int host = 0; host < layout.hosts(); ++host) place_.switch_ranks.push_back(layout.ranks_of(host).front());
    Blob blob;
    blob.set("each_host", layout.text());
    if (seal_) blob.set("seal", to_hex(*seal_));
    return blob;
  }

  Status serve_on_each_host(const std::string& text) {
    const auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    if (layout->leader_of(opening_.group.rank) == opening_.group.rank) {
      if (Status said = opening_.say("aggregator", aggregator()); !said.ok()) return said;
    }
    const auto all = opening_.by_rank_0("aggregators", "say where each host adds a part",
                                        [&] { return aggregators(layout->leaders()); });
    if (!all.ok()) return all.status();
    if (Status status = read_switch(all.value()); !status.ok()) return status;
    if (static_cast<int>(place_.switches.size()) != layout->hosts()) {
      return {Code::kMismatch,
              "rank 0 announced other aggregators than those of the hosts: install the same switchml "
              "on all ranks"};
    }
    for (size_t host = 0; host < place_.switches.size(); ++host) place_.switches[host].host = static_cast<int>(host);
    return {};
  }

  Result<Blob> aggregator() {
    const auto place = start_switch(false);
    if (!place.ok()) {
      return Status(place.status().code(), "rank " + std::to_string(opening_.group.rank) +
                                               " cannot add a part for its host: " + place.status().message());
    }
    Blob blob;
    write_switch_address(place.value(), &blob);
    return blob;
  }

  Result<Blob> aggregators(const std::vector<int>& leaders) {
    Blob all;
    all.set("switches", leaders.size());
    for (size_t host = 0; host < leaders.size(); ++host) {
      const auto said = opening_.time.awaiting([&] {
        return opening_.exchange.hear("aggregator", leaders[host], "add a part for its host",
                                      opening_.time.gather_end());
      });
      if (!said.ok()) return said.status();
      all.put("switch/" + std::to_string(host), said.value());
    }
    return all;
  }

  Opening& opening_;
  const bool watched_;
  std::optional<SealKey> seal_;  // Of the group's switches, where links to them are sealed.
  Place place_;
};

}  // namespace

Result<Place> agree_on_place(Opening& opening, std::shared_ptr<ControllerClient> controller, bool watched) {
  return PlaceAgreement(opening, std::move(controller), watched).run();
}

}  // namespace switchml
