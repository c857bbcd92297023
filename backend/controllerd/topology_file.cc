#include "controllerd/topology_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/option.h"
#include "base/parse.h"
#include "base/secret.h"
#include "controllerd/yaml_checks.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "wire/layout.h"

namespace switchml {

using controller::kNone;
using controller::SwitchSpec;
using controller::Topology;
using controller::WorkerSpec;

namespace {

constexpr uint64_t kMostPorts = 65535;
constexpr uint64_t kLeastMtu = 576;  // IPv4's minimum for every host.
constexpr uint64_t kMostMtu = 65535;

/// Whether the text is "HOST:PORT", with an address or a name, or "unix:PATH", as gRPC resolves them.
bool is_agent(const std::string& text) { return text.rfind("unix:", 0) == 0 ? text.size() > 5 : is_peer(text); }

class Reader {
 public:
  explicit Reader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Topology read(const YAML::Node& root) {
    yaml::check_keys(root, "the topology", {"switches", "workers", "limits", "links"});
    read_limits(root["limits"]);
    read_switches(yaml::required(root, "the topology", "switches"));
    read_workers(root, root["workers"]);
    if (root["links"]) check_links(root["links"]);
    return std::move(topology_);
  }

 private:
  void read_limits(const YAML::Node& node) {
    if (!node) return;
    yaml::check_keys(node, "limits", {"lease"});
    if (node["lease"]) topology_.lease = seconds(yaml::number(node["lease"], "lease (seconds)", 1, 86400));
  }

  // ---- switches ----

  void read_switches(const YAML::Node& list) {
    yaml::check_list(list, "switches");
    if (list.size() == 0) yaml::fail(list, "switches: there is none; at least one is needed");
    std::vector<YAML::Node> aggregating;
    for (const YAML::Node& node : list) {
      if (read_switch(node)) aggregating.push_back(node);
    }
    if (aggregating.empty()) yaml::fail(list, "switches: none of them aggregates; at least one is needed");
    for (const auto& [name, node] : plain_) check_plain(name, node);
    for (size_t i = 0; i < aggregating.size(); ++i) read_parent(aggregating[i], static_cast<int>(i));
    for (size_t i = 0; i < aggregating.size(); ++i) check_cycle(aggregating[i], static_cast<int>(i));
  }

  /// Returns whether it aggregates. Others are no switches of the controller: packets pass them.
  bool read_switch(const YAML::Node& node) {
    yaml::check_keys(node, "a switch",
                     {"name", "agent", "agent_token_file", "address", "mac", "parent", "parent_port", "port_at_parent",
                      "mtu", "ports", "capacity", "aggregates", "forwards"});
    SwitchSpec spec;
    const YAML::Node name = yaml::required(node, "a switch", "name");
    spec.name = yaml::text(name, "name");
    if (find_switch(spec.name) != kNone || plain_.count(spec.name) != 0) {
      yaml::fail(name, "switch name \"" + spec.name + "\" is used twice");
    }
    const std::string self = "switch \"" + spec.name + "\"";
    if (!check_for_planner(node, self)) {
      plain_.emplace(spec.name, node);
      return false;
    }
    const YAML::Node agent = yaml::required(node, self, "agent");
    spec.agent = yaml::text(agent, "agent");
    if (!is_agent(spec.agent))
      yaml::fail(
          agent,
          self + ": agent \"" + spec.agent +
              "\": allowed is HOST:PORT, with a port from 1 to 65535 and not the wildcard address, or unix:PATH");
    for (const SwitchSpec& other : topology_.switches) {
      if (other.agent == spec.agent) {
        yaml::fail(agent, self + ": agent \"" + spec.agent + "\" is that of switch \"" + other.name + "\" too");
      }
    }
    if (node["agent_token_file"]) spec.agent_token = secret(node["agent_token_file"], self);
    spec.address = switch_address(yaml::required(node, self, "address"), self);
    if (node["mac"]) spec.mac = yaml::mac(node["mac"], self + ": mac");
    ports_.emplace_back();
    if (node["ports"]) read_ports(node["ports"], self, &ports_.back());
    topology_.switches.push_back(spec);
    return true;
  }

  /// Checks the keys for the planner (docs/planning.md). Returns whether the switch aggregates.
  static bool check_for_planner(const YAML::Node& node, const std::string& self) {
    if (node["forwards"]) yaml::boolean(node["forwards"], self + ": forwards");
    const bool aggregates = !node["aggregates"] || yaml::boolean(node["aggregates"], self + ": aggregates");
    if (!node["capacity"]) return aggregates;
    yaml::speed(node["capacity"]);
    if (!aggregates) yaml::fail(node["capacity"], self + ": capacity means nothing with aggregates: false");
    return aggregates;
  }

  /// Checks a switch that does not aggregate: its parents must exist.
  void check_plain(const std::string& name, const YAML::Node& node) {
    const std::string self = "switch \"" + name + "\"";
    if (node["parent"]) switch_above(node["parent"], self + ": parent");
    if (node["ports"]) {
      std::map<uint32_t, std::string> ports;
      read_ports(node["ports"], self, &ports);
    }
  }

  std::string secret(const YAML::Node& node, const std::string& self) {
    const std::filesystem::path name = yaml::text(node, "agent_token_file");
    const std::string path = name.is_absolute() ? name.string() : (folder_ / name).string();
    auto word = read_secret(path, path);
    if (!word.ok()) yaml::fail(node, self + ": agent_token_file: " + word.status().message());
    return word.value();
  }

  Endpoint switch_address(const YAML::Node& node, const std::string& self) {
    const std::string text = yaml::text(node, "address");
    const auto address = literal_address(text, wire::kDefaultPort);
    if (!address.ok()) yaml::fail(node, self + ": address " + address.status().message());
    if (!is_unicast(address.value()) || port_of(address.value()) == 0) {
      yaml::fail(node, self + ": address \"" + text + "\": allowed is a unicast one that workers can send to");
    }
    for (const SwitchSpec& other : topology_.switches) {
      if (other.address == address.value()) {
        yaml::fail(node, self + ": address \"" + text + "\" is that of switch \"" + other.name + "\" too");
      }
    }
    return address.value();
  }

  void read_ports(const YAML::Node& node, const std::string& self, std::map<uint32_t, std::string>* ports) {
    if (!node.IsMap()) yaml::fail(node, self + ": ports must map numbers to speeds, as in {1: 100G}");
    for (const auto& entry : node) {
      const auto port = static_cast<uint32_t>(yaml::number(entry.first, self + ": port", 1, kMostPorts));
      if (!ports->emplace(port, yaml::speed(entry.second)).second) {
        yaml::fail(entry.first, self + ": port " + std::to_string(port) + " is listed twice");
      }
    }
  }

  void read_parent(const YAML::Node& node, int index) {
    SwitchSpec& spec = topology_.switches[static_cast<size_t>(index)];
    const std::string self = "switch \"" + spec.name + "\"";
    if (!node["parent"]) {
      for (const char* const key : {"parent_port", "port_at_parent", "mtu"}) {
        if (node[key]) yaml::fail(node[key], self + ": " + key + " means nothing without parent");
      }
      return;
    }
    spec.parent = switch_above(node["parent"], self + ": parent");
    if (node["parent_port"]) spec.up.port = port(node["parent_port"], index, self, "parent_port");
    if (node["mtu"]) spec.up.mtu = yaml::number(node["mtu"], self + ": mtu (bytes)", kLeastMtu, kMostMtu);
    if (node["port_at_parent"]) {
      spec.up.port_at_parent = port_at(node["port_at_parent"], node["parent"], spec.parent, self, "port_at_parent");
    }
  }

  void check_cycle(const YAML::Node& node, int index) {
    std::string way = topology_.switches[static_cast<size_t>(index)].name;
    std::set<int> seen = {index};
    int at = topology_.switches[static_cast<size_t>(index)].parent;
    for (; at != kNone; at = topology_.switches[static_cast<size_t>(at)].parent) {
      way += " -> " + topology_.switches[static_cast<size_t>(at)].name;
      if (!seen.insert(at).second) yaml::fail(node["parent"], "parents form a cycle: " + way);
    }
  }

  // ---- workers ----

  void read_workers(const YAML::Node& root, const YAML::Node& list) {
    if (!list) {
      const size_t switches = topology_.switches.size();
      if (switches == 1) return;
      yaml::fail(root, "workers: missing; with " + std::to_string(switches) +
                           " switches the topology must say which worker is at which");
    }
    yaml::check_list(list, "workers");
    if (list.size() == 0) yaml::fail(list, "workers: there is none; leave the key out where any worker may come");
    for (const YAML::Node& node : list) read_worker(node);
  }

  void read_worker(const YAML::Node& node) {
    yaml::check_keys(node, "a worker", {"name", "addresses", "switch", "port", "speed"});
    WorkerSpec spec;
    const YAML::Node name = yaml::required(node, "a worker", "name");
    spec.name = yaml::text(name, "name");
    for (const WorkerSpec& other : topology_.workers) {
      if (other.name == spec.name) yaml::fail(name, "worker name \"" + spec.name + "\" is used twice");
    }
    const std::string self = "worker \"" + spec.name + "\"";
    const YAML::Node addresses = yaml::required(node, self, "addresses");
    yaml::check_list(addresses, self + ": addresses");
    if (addresses.size() == 0) yaml::fail(addresses, self + ": addresses: there is none; at least one is needed");
    for (const YAML::Node& address : addresses) spec.addresses.push_back(worker_address(address, self));
    spec.attached = switch_above(yaml::required(node, self, "switch"), self + ": switch");
    if (spec.attached == kNone) {
      yaml::fail(node["switch"],
                 self + ": switch \"" + node["switch"].Scalar() + "\" does not aggregate, and has no parent that does");
    }
    if (node["port"]) spec.port = port_at(node["port"], node["switch"], spec.attached, self, "port");
    if (node["speed"]) spec.speed = yaml::speed(node["speed"]);
    topology_.workers.push_back(spec);
  }

  Endpoint worker_address(const YAML::Node& node, const std::string& self) {
    const std::string text = yaml::text(node, "address");
    const auto address = literal_address(text, 0);
    if (!address.ok()) yaml::fail(node, self + ": address " + address.status().message());
    if (port_of(address.value()) != 0)
      yaml::fail(node, self + ": address \"" + text + "\": allowed is one without a port");
    if (!is_unicast(address.value())) {
      yaml::fail(node, self + ": address \"" + text + "\": allowed is a unicast one");
    }
    if (const int other = controller::worker_at(topology_, address.value()); other != kNone) {
      yaml::fail(node, self + ": address \"" + text + "\" is that of worker \"" +
                           topology_.workers[static_cast<size_t>(other)].name + "\" too");
    }
    return address.value();
  }

  // ---- links, which only the planner uses ----

  void check_links(const YAML::Node& list) {
    yaml::check_list(list, "links");
    std::set<std::set<std::string>> seen;
    for (const YAML::Node& node : list) {
      yaml::check_keys(node, "a link", {"ends", "speed", "ports"});
      const YAML::Node ends = yaml::required(node, "a link", "ends");
      check_pair(ends, "a link: ends");
      for (const YAML::Node& end : ends) check_end(end);
      const std::string self = "link " + ends[0].Scalar() + "-" + ends[1].Scalar();
      if (ends[0].Scalar() == ends[1].Scalar()) {
        yaml::fail(ends, self + ": both ends are the same; allowed are two different ones");
      }
      if (!seen.insert({ends[0].Scalar(), ends[1].Scalar()}).second) yaml::fail(ends, self + " is listed twice");
      check_link(node, self);
    }
  }

  void check_end(const YAML::Node& node) const {
    const std::string name = yaml::text(node, "a link: end");
    bool known = find_switch(name) != kNone || plain_.count(name) != 0;
    for (const WorkerSpec& worker : topology_.workers) known = known || worker.name == name;
    if (!known) yaml::fail(node, "a link: end \"" + name + "\" is no switch or worker of this file");
  }

  static void check_link(const YAML::Node& node, const std::string& self) {
    const YAML::Node speed = yaml::required(node, self, "speed");
    if (speed.IsSequence()) {
      check_pair(speed, self + ": speed");
      for (const YAML::Node& one : speed) yaml::speed(one);
    } else {
      yaml::speed(speed);
    }
    if (!node["ports"]) return;
    check_pair(node["ports"], self + ": ports");
    for (const YAML::Node& port : node["ports"]) yaml::number(port, self + ": port", 0, kMostPorts);
  }

  static void check_pair(const YAML::Node& list, const std::string& what) {
    yaml::check_list(list, what);
    if (list.size() != 2) {
      yaml::fail(list, what + ": there are " + std::to_string(list.size()) + "; allowed are 2, one for each end");
    }
  }

  // ---- both ----

  int find_switch(const std::string& name) const {
    for (size_t i = 0; i < topology_.switches.size(); ++i) {
      if (topology_.switches[i].name == name) return static_cast<int>(i);
    }
    return kNone;
  }

  /// The switch of that name; if it does not aggregate, the nearest one above it that does, or kNone.
  int switch_above(const YAML::Node& node, const std::string& what) const {
    std::string name = yaml::text(node, what);
    std::string way = name;
    std::set<std::string> seen;
    for (YAML::Node at = node;;) {
      const int index = find_switch(name);
      if (index != kNone) return index;
      const auto plain = plain_.find(name);
      if (plain == plain_.end())
        yaml::fail(at, what + " \"" + name + "\" is no switch of this file; allowed are " + names());
      if (!seen.insert(name).second) yaml::fail(node, "parents form a cycle: " + way);
      if (!plain->second["parent"]) return kNone;
      at.reset(plain->second["parent"]);
      name = yaml::text(at, "parent");
      way += " -> " + name;
    }
  }

  std::string names() const {
    std::string names;
    for (const SwitchSpec& spec : topology_.switches) names += (names.empty() ? "" : ", ") + spec.name;
    for (const auto& [name, node] : plain_) names += ", " + name;
    return names;
  }

  /// The port at switch `at`, if that is the named switch: ports of switches that do not aggregate are checked, and
  /// count as 0.
  uint32_t port_at(const YAML::Node& node, const YAML::Node& named, int at, const std::string& self,
                   const std::string& key) {
    if (plain_.count(named.Scalar()) == 0) return port(node, at, self, key);
    yaml::number(node, self + ": " + key, 1, kMostPorts);
    return 0;
  }

  /// A port of switch `at`, for one user.
  uint32_t port(const YAML::Node& node, int at, const std::string& self, const std::string& key) {
    const std::string what = self + ": " + key;
    const auto number = static_cast<uint32_t>(yaml::number(node, what, 1, kMostPorts));
    const std::string of = " of switch \"" + topology_.switches[static_cast<size_t>(at)].name + "\"";
    const auto& ports = ports_[static_cast<size_t>(at)];
    if (!ports.empty() && ports.count(number) == 0) {
      yaml::fail(node, what + " " + std::to_string(number) + " is not among the ports" + of);
    }
    const auto [user, fresh] = port_users_.emplace(std::make_pair(at, number), self);
    if (!fresh) yaml::fail(node, what + " " + std::to_string(number) + of + " is used by " + user->second + " too");
    return number;
  }

  std::filesystem::path folder_;
  Topology topology_;
  std::map<std::string, YAML::Node> plain_;             // Switches that do not aggregate.
  std::vector<std::map<uint32_t, std::string>> ports_;  // Switch -> port number -> speed.
  std::map<std::pair<int, uint32_t>, std::string> port_users_;
};

}  // namespace

Result<Topology> read_topology(const std::string& path) {
  Topology topology;
  const Status status = load_yaml(
      path, [&](const YAML::Node& root) { topology = Reader(std::filesystem::path(path).parent_path()).read(root); });
  if (!status.ok()) return status;
  return topology;
}

Result<Topology> lone_switch(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string agent = text.substr(0, equals);
  const auto address = literal_address(equals == std::string::npos ? "" : text.substr(equals + 1), wire::kDefaultPort);
  if (!is_agent(agent) || !address.ok() || !is_unicast(address.value()) || port_of(address.value()) == 0) {
    return not_allowed(
        "--switch", text,
        "AGENT=ADDRESS, the HOST:PORT of the switch's agent and the literal, unicast address that workers "
        "send to; ports are 1 to 65535");
  }
  Topology topology;
  SwitchSpec spec;
  spec.name = "switch";
  spec.agent = agent;
  spec.address = address.value();
  topology.switches.push_back(spec);
  return topology;
}

}  // namespace switchml
