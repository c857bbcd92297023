#include "session/place_agreement.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "client/switch_address.h"
#include "session/hello.h"
#include "session/host_addresses.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "watch/peer_watch.h"

namespace switchml {

namespace {

constexpr const char* kNone = "none";  // no address

class PlaceAgreement {
 public:
  explicit PlaceAgreement(Opening& opening) : opening_(opening) {}

  Status run() {
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say("switch", provide_place()); !status.ok()) return status;
    }
    const Time begin = monotonic_now();
    auto blob = opening_.hear("switch", "find a switch");
    const Time now = monotonic_now();
    if (!blob.ok() && now >= opening_.time.deadline())
      return opening_.exchange.who_is_missing("hello", now - begin, blob.status());
    if (!blob.ok()) return blob.status();
    const Status end = opening_.time.awaiting([&] { return opening_.exchange.ended(); });
    if (!end.ok()) return end;  // rank 0 is to know this one from now on
    read_own_address(blob.value());
    if (!blob->text("memory").empty()) return share_memory(blob.value());
    const std::string each = blob->text("each_host");
    Status status = each.empty() ? read_switch(blob.value()) : serve_on_each_host(each);
    if (status.ok()) status = read_standby(blob->text("standby"));
    if (!status.ok()) return status;
    return blob->text("hosts").empty() ? Status() : share_on_hosts(blob->text("hosts"));
  }

 private:
  Status read_switch(const Blob& blob) {
    SessionParameters& session = opening_.agreed.parameters;
    if (!opening_.config.controller.empty()) {
      const auto shares = shares_of(blob);
      if (!shares.ok()) return shares.status();
      for (size_t share = 0; share < shares.value(); ++share) {
        SessionParameters there = session;
        if (Status status = read_place(blob, share, &there); !status.ok()) return status;
        Status status =
            take_place(SwitchAddress{there.switch_endpoint, there.switch_name, there.weight, there.tree_id});
        if (!status.ok()) return status;
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
    const auto& switches = opening_.switches;
    if (!switches.empty() && family_of(switches.front().endpoint) != family_of(place->endpoint)) {
      return {Code::kInvalidArgument, "switches " + switches.front().name + " and " + place->name +
                                          " have addresses of IPv4 and of IPv6: name interfaces that have addresses "
                                          "of one of them (SWITCHML_INTERFACE)"};
    }
    if (switches.empty()) {
      opening_.agreed.parameters.switch_endpoint = place->endpoint;
      opening_.agreed.parameters.switch_name = place->name;
      opening_.agreed.parameters.weight = place->weight;
      opening_.agreed.parameters.tree_id = place->tree_id;
    }
    opening_.switches.push_back(std::move(place.value()));
    return {};
  }

  Result<Blob> provide_place() {
    auto hellos = opening_.hear_all("hello");
    if (!hellos.ok()) return hellos.status();
    if (Status status = compare_hellos(hellos.value()); !status.ok()) return status;
    for (const Blob& hello : hellos.value()) {
      opening_.hosts.push_back(hello.text("host"));
      opening_.processors.push_back(read_processor_share(hello.text("processors")));
      opening_.faults = opening_.faults || !hello.text("faults").empty();
    }
    if (Status status = check_hosts(opening_.config, opening_.hosts); !status.ok()) return status;
    const HostLayout layout = HostLayout::of(opening_.hosts);
    opening_.one_host = layout.hosts() == 1;
    choose_addresses(layout, hellos.value());
    if (!opening_.config.controller.empty()) return for_all(layout, ask_controller(hellos.value()));
    if (opening_.config.switch_address.empty() && wants_memory(opening_.config, opening_.one_host) && !opening_.faults)
      return offer_or_host();
    auto place = !opening_.config.switch_address.empty()              ? name_switches()
                 : layout.hosts() > 1 && wants_exact(opening_.config) ? each_host(layout)
                                                                      : host_switch();
    if (place.ok() && wants_hosts(opening_.config, layout, opening_.faults)) place->set("hosts", layout.text());
    return for_all(layout, std::move(place));
  }

  // With what does not depend on the switch: the hosts whose first ranks take its place when it is lost, and where each
  // rank's host is reached.
  Result<Blob> for_all(const HostLayout& layout, Result<Blob> place) const {
    if (place.ok() && opening_.config.fallback) place->set("standby", layout.text());
    for (int rank = 0; place.ok() && !opening_.one_host && rank < layout.ranks(); ++rank) {
      const auto host = static_cast<size_t>(layout.host_of(rank));
      place->set(address_key(rank), addresses_.empty() ? kNone : to_literal(addresses_[host]));
    }
    return place;
  }

  // ---- where each host is reached ----
  void choose_addresses(const HostLayout& layout, const std::vector<Blob>& hellos) {
    if (opening_.one_host) return;
    auto chosen = choose_host_addresses(layout, hellos);
    if (chosen.ok()) addresses_ = std::move(chosen.value());
    opening_.own_address = chosen.ok() ? Result<Endpoint>(addresses_[0]) : chosen.status();
  }

  static std::string address_key(int rank) { return "address/" + std::to_string(rank); }

  void read_own_address(const Blob& blob) {
    const std::string text = blob.text(address_key(opening_.group.rank));
    if (opening_.group.rank != 0 && !text.empty()) opening_.own_address = literal_address(text, 0);
    if (opening_.own_address.ok()) opening_.agreed.parameters.own_address = opening_.own_address.value();
  }

  Status read_standby(const std::string& text) {
    if (text.empty()) return {};
    auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    opening_.agreed.leaders = layout->leaders();
    return {};
  }

  // ---- memory ----
  Result<Blob> offer_or_host() {
    Blob blob;
    if (Status status = opening_.memory.offer(arena_bytes(opening_.config, opening_.group.size), &blob); !status.ok())
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
    if (Status status = opening_.time.awaiting([&] { return opening_.memory.fetch(offered); }); !status.ok())
      return status;
    if (opening_.group.rank == 0) {
      if (Status status = opening_.say("place", conclude_memory()); !status.ok()) return status;
    }
    auto place = opening_.hear("place", "say whether all ranks share memory");
    if (!place.ok()) return place.status();
    auto memory = opening_.memory.take();
    if (!place->text("switches").empty()) return read_switch(place.value());
    if (memory == nullptr) {
      return {Code::kMismatch,
              "rank 0 says that all ranks share memory, but this one has none: install the same "
              "switchml on all ranks"};
    }
    opening_.agreed.memory = std::move(memory);
    opening_.agreed.parameters.switch_name = "memory of this host";
    opening_.agreed.parameters.payload_bytes = shm::shape_for(opening_.group.size).chunk_bytes;
    opening_.agreed.parameters.slots = shm::shape_for(opening_.group.size).slots;
    read_neighbours(opening_, place.value());
    read_watch(opening_, place.value());
    return {};
  }

  Result<Blob> conclude_memory() {
    const auto missing = opening_.time.awaiting([&] { return opening_.memory.missing(opening_.time.gather_end()); });
    if (!missing.ok()) return missing.status();
    if (!missing->empty()) return instead_of_memory(missing.value());
    Blob place;
    tell_neighbours(opening_, std::vector<int>(opening_.hosts.size(), 1), &place);
    offer_watch(opening_, &place);
    return place;
  }

  // ---- memory of each host, beside a switch ----
  Status share_on_hosts(const std::string& text) {
    auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    opening_.agreed.hosts = std::move(layout.value());
    return opening_.time.awaiting([&] {
      opening_.memory.share(opening_.agreed.hosts);
      return Status();
    });
  }

  // ---- a switch ----

  Result<Blob> ask_controller(const std::vector<Blob>& hellos) {
    if (opening_.agreed.controller.client == nullptr) {
      return Status(Code::kInvalidArgument, "SWITCHML_CONTROLLER=\"" + opening_.config.controller +
                                                "\": this program has no client for a controller");
    }
    for (const Blob& hello : hellos) {
      std::istringstream words(hello.text("addresses"));
      opening_.agreed.controller.ranks.emplace_back(std::istream_iterator<std::string>(words),
                                                    std::istream_iterator<std::string>());
    }
    return opening_.agreed.controller.places(opening_.time.stage_end(0.8));
  }

  Result<Blob> name_switches() {
    auto switches = named_switches(opening_.config, opening_.one_host);
    if (!switches.ok()) return switches.status();
    return blob_of(switches.value());
  }

  Result<Blob> host_switch() {
    auto place = start_switch(opening_.one_host);
    if (!place.ok()) return place.status();
    opening_.switch_ranks = {0};
    return blob_of({place.value()});
  }

  Result<SwitchAddress> start_switch(bool one_host) {
    if (!opening_.own_address.ok()) return opening_.own_address.status();
    return embedded_switch(opening_.config, opening_.own_address.value(), one_host, opening_.group.name,
                           opening_.group.rank, &opening_.agreed.embedded);
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
    if (!opening_.own_address.ok()) return opening_.own_address.status();
    for (int host = 0; host < layout.hosts(); ++host) opening_.switch_ranks.push_back(layout.ranks_of(host).front());
    Blob blob;
    blob.set("each_host", layout.text());
    return blob;
  }

  Status serve_on_each_host(const std::string& text) {
    const auto layout = HostLayout::parse(text, opening_.group.size);
    if (!layout.ok()) return layout.status();
    if (layout->leader_of(opening_.group.rank) == opening_.group.rank) {
      if (Status said = opening_.say("aggregator", aggregator()); !said.ok()) return said;
    }
    for (int host = 0; host < layout->hosts(); ++host) {
      if (Status status = hear_of_aggregator(layout->ranks_of(host).front()); !status.ok()) return status;
      opening_.switches.back().host = host;
    }
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

  Status hear_of_aggregator(int rank) {
    const auto said = opening_.time.awaiting([&] {
      return opening_.exchange.hear("aggregator", rank, "add a part for its host", opening_.time.deadline());
    });
    if (!said.ok()) return said.status();
    return take_place(read_switch_address(said.value()));
  }

  Opening& opening_;
  std::vector<Endpoint> addresses_;  // of the hosts, on rank 0 of a group on several
};

}  // namespace

Status agree_on_place(Opening& opening) { return PlaceAgreement(opening).run(); }

void tell_neighbours(const Opening& opening, const std::vector<int>& threads, Blob* blob) {
  const std::vector<MachineRanks> all = machine_ranks(opening.hosts, opening.processors, threads);
  for (size_t rank = 0; rank < all.size(); ++rank) blob->set("local/" + std::to_string(rank), to_text(all[rank]));
}

void read_neighbours(Opening& opening, const Blob& blob) {
  opening.agreed.local = read_machine_ranks(blob.text("local/" + std::to_string(opening.group.rank)));
}

void offer_watch(Opening& opening, Blob* blob) {
  if (opening.watched) return;
  opening.agreed.watch_key = random_bits();
  const auto& address = opening.own_address;
  auto listener = address.ok() ? PeerWatch::listen(address.value()) : Result<Fd>(address.status());
  if (!listener.ok()) {
    SWITCHML_LOG(kWarning) << opening.group.name
                           << ": the death of a rank will be noticed by timeouts only: " << listener.status().message();
    return;
  }
  opening.agreed.watch_listener = std::move(listener.value());
  blob->set("watch", to_string(local_endpoint(opening.agreed.watch_listener.get())));
  blob->set("watch_key", opening.agreed.watch_key);
}

void read_watch(Opening& opening, const Blob& blob) {
  const auto watch = literal_address(blob.text("watch"), 0);
  if (!watch.ok() || opening.group.rank == 0) return;
  opening.agreed.watch_address = watch.value();
  blob.number("watch_key", UINT64_MAX, &opening.agreed.watch_key);
}

}  // namespace switchml
