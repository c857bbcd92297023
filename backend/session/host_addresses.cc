#include "session/host_addresses.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/udp_path.h"

namespace switchml {

namespace {

using Addresses = std::vector<Endpoint>;

std::string to_words(const Addresses& addresses) {
  std::string words;
  for (const Endpoint& address : addresses) words += (words.empty() ? "" : " ") + to_literal(address);
  return words;
}

// What another rank wrote that is no address is passed over.
Addresses read_words(const std::string& text) {
  Addresses addresses;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto address = literal_address(word, 0);
    if (address.ok()) addresses.push_back(address.value());
  }
  return addresses;
}

bool has(const Addresses& addresses, const Endpoint& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

std::optional<Endpoint> first_of(int family, const Addresses& addresses) {
  const auto found = std::find_if(addresses.begin(), addresses.end(),
                                  [family](const Endpoint& address) { return family_of(address) == family; });
  return found == addresses.end() ? std::nullopt : std::optional<Endpoint>(*found);
}

class Choice {
 public:
  Choice(const HostLayout& layout, const std::vector<Blob>& hellos) {
    for (const Blob& hello : hellos) {
      for (const Endpoint& address : read_words(hello.text("store_at"))) store_at_.push_back(address);
    }
    for (const int leader : layout.leaders()) {
      const Blob& hello = hellos[static_cast<size_t>(leader)];
      hosts_.push_back({leader, is_known(hello.text("host")), read_words(hello.text("sources")),
                        read_words(hello.text("candidates")), hello.text("interface")});
    }
  }

  Result<Addresses> run() const {
    Status alike;
    for (const bool sure : {true, false}) {
      for (const int family : {AF_INET, AF_INET6}) {
        const Addresses chosen = choose(family, sure);
        if (chosen.size() < hosts_.size()) continue;
        const Status status = check_that_they_differ(chosen);
        if (status.ok()) return chosen;
        if (alike.ok()) alike = status;
      }
    }
    return alike.ok() ? nothing_in_common() : alike;
  }

 private:
  struct Host {
    int leader = 0;
    bool known = false;
    Addresses sources;
    Addresses candidates;
    std::string interface;
  };

  // Where host_identity() could not tell, each rank counts as a host, and those of one host rightly share an address.
  static bool is_known(const std::string& identity) { return std::count(identity.begin(), identity.end(), '/') == 1; }

  Addresses choose(int family, bool sure) const {
    Addresses chosen;
    for (const Host& host : hosts_) {
      const auto address = sure ? sure_address(family, host) : any_address(family, host);
      if (address) chosen.push_back(*address);
    }
    return chosen;
  }

  std::optional<Endpoint> sure_address(int family, const Host& host) const {
    if (const auto source = first_of(family, host.sources)) return source;
    Addresses seen;  // The store's host, as others see it.
    std::copy_if(host.candidates.begin(), host.candidates.end(), std::back_inserter(seen),
                 [this](const Endpoint& address) { return has(store_at_, address); });
    return first_of(family, seen);
  }

  std::optional<Endpoint> any_address(int family, const Host& host) const {
    if (const auto sure = sure_address(family, host)) return sure;
    Addresses own;
    std::copy_if(host.candidates.begin(), host.candidates.end(), std::back_inserter(own),
                 [&](const Endpoint& address) { return !other_has(host, address); });
    if (const auto first = first_of(family, own)) return first;
    return first_of(family, host.candidates);
  }

  bool other_has(const Host& host, const Endpoint& address) const {
    return std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& other) {
      return other.leader != host.leader && has(other.candidates, address);
    });
  }

  Status check_that_they_differ(const Addresses& chosen) const {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      std::string ranks;
      for (size_t other = i + 1; other < hosts_.size(); ++other) {
        if (hosts_[i].known && hosts_[other].known && chosen[i] == chosen[other])
          ranks += ", rank " + std::to_string(hosts_[other].leader);
      }
      if (ranks.empty()) continue;
      return {Code::kUnavailable,
              "rank " + std::to_string(hosts_[i].leader) + ranks +
                  " are on different hosts, but all announce the address " + to_literal(chosen[i]) +
                  " (one behind NAT, or of a bridge that each of them has): set SWITCHML_INTERFACE on these hosts to "
                  "the network interface whose address the others reach"};
    }
    return {};
  }

  Status nothing_in_common() const {
    std::string text;
    for (const Host& host : hosts_) {
      const std::string of = host.interface.empty() ? "" : " on SWITCHML_INTERFACE=" + host.interface;
      const std::string all = to_words(host.candidates);
      text += (text.empty() ? "rank " : "; rank ") + std::to_string(host.leader) + " has " +
              (all.empty() ? "none but loopback and link-local ones" : all) + of;
    }
    return {Code::kUnavailable,
            "the ranks' hosts have no family of addresses in common: " + text +
                ". Give each host an IPv4 address, or each an IPv6 address that is not link-local (fe80::)"};
  }

  Addresses store_at_;
  std::vector<Host> hosts_;
};

}  // namespace

void write_host_addresses(const Config& config, const std::string& store_host, Blob* hello) {
  const Addresses candidates = candidate_addresses(config.interface);
  Addresses sources, store_at;
  if (!config.interface.empty()) {
    sources = candidates;
  } else if (!store_host.empty()) {
    store_at = addresses_of(store_host);
    for (const Endpoint& address : store_at) {
      const Endpoint source = local_address_towards(address);
      if (has(candidates, source)) sources.push_back(source);  // Others are known to this host or its link alone.
    }
  }
  hello->set("candidates", to_words(candidates));
  hello->set("sources", to_words(sources));
  hello->set("store_at", to_words(store_at));
  hello->set("interface", config.interface);
}

Result<std::vector<Endpoint>> choose_host_addresses(const HostLayout& layout, const std::vector<Blob>& hellos) {
  return Choice(layout, hellos).run();
}

}  // namespace switchml
