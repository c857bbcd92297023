// The order in which accepted TCP connections go when there has to be room for others: the one that has been silent
// longest first, of all or of those from one address.
#pragma once

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>

#include "socket/endpoint_hash.h"

namespace switchml {

/// Each call takes constant time. Borrows the connections, which keep their places.
template <class Connection>
class SilenceOrder {
 public:
  using List = std::list<Connection*>;  // the one that has been silent longest comes first
  struct Place {
    typename List::iterator of_all, of_host;
    std::pair<const Endpoint, List>* host = nullptr;  // null: it is not in the order
  };

  /// `host`: the same for all from one address.
  Place add(Connection* connection, const Endpoint& host) {
    auto& here = *hosts_.try_emplace(host).first;
    return {all_.insert(all_.end(), connection), here.second.insert(here.second.end(), connection), &here};
  }
  /// Something has come over the connection.
  void heard(const Place& place) {
    List& here = place.host->second;
    all_.splice(all_.end(), all_, place.of_all);
    here.splice(here.end(), here, place.of_host);
  }
  void remove(const Place& place) {
    all_.erase(place.of_all);
    place.host->second.erase(place.of_host);
    if (place.host->second.empty()) hosts_.erase(hosts_.find(place.host->first));
  }

  const List& all() const { return all_; }
  const List& of(const Endpoint& host) const {
    const auto here = hosts_.find(host);
    return here == hosts_.end() ? none_ : here->second;
  }
  /// The connections from the address with the most.
  const List& largest() const {
    const auto most = std::max_element(hosts_.begin(), hosts_.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    return most == hosts_.end() ? none_ : most->second;
  }

 private:
  const List none_{};
  List all_;
  std::unordered_map<Endpoint, List, EndpointHash> hosts_;
};

}  // namespace switchml
