#include "session/placement.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/log.h"
#include "base/parse.h"
#include "base/processors.h"
#include "engine/spin_wait.h"
#include "socket/address.h"

namespace switchml {

namespace {

std::string first_line(const std::string& path) {
  const std::string text = read_text_file(path);
  return text.substr(0, text.find('\n'));
}

std::vector<int> processors_in(const std::string& path) {
  return parse_processor_list(first_line(path)).value_or(std::vector<int>{});
}

/// The first processor of the core that `processor` belongs to.
int core_of(int processor, const std::string& root) {
  const auto siblings = processors_in(root + "/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                                      "/topology/thread_siblings_list");
  return siblings.empty() ? processor : siblings.front();
}

}  // namespace

Machine read_machine(const std::string& root) {
  Machine machine;
  machine.online = processors_in(root + "/sys/devices/system/cpu/online");
  std::map<int, int> cores;
  for (const int processor : machine.online) cores[processor] = core_of(processor, root);
  for (const int node : processors_in(root + "/sys/devices/system/node/online")) {
    if (static_cast<size_t>(node) >= machine.nodes.size()) machine.nodes.resize(static_cast<size_t>(node) + 1);
    std::vector<int>& processors = machine.nodes[static_cast<size_t>(node)];
    for (const int p : processors_in(root + "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist")) {
      if (cores.count(p) != 0) processors.push_back(p);
    }
    std::stable_sort(processors.begin(), processors.end(), [&](int a, int b) { return cores[a] < cores[b]; });
  }
  return machine;
}

int node_of_interface(const std::string& interface, const std::string& root) {
  if (interface.empty() || interface.find('/') != std::string::npos) return -1;
  const auto node = parse_integer(first_line(root + "/sys/class/net/" + interface + "/device/numa_node"), 0, 4095);
  return node ? static_cast<int>(*node) : -1;
}

LocalRanks local_ranks(const std::vector<std::string>& hosts, int rank, const std::vector<int>& switch_hosts) {
  const auto machine = [&](int r) {
    const std::string& host = hosts[static_cast<size_t>(r)];
    return host.substr(0, host.find('/'));
  };
  const auto is_near = [&](int other) { return machine(other) == machine(rank); };
  LocalRanks local;
  local.count = 0;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (!is_near(other)) continue;
    if (other == rank) local.index = local.count;
    ++local.count;
  }
  local.switches = static_cast<int>(std::count_if(switch_hosts.begin(), switch_hosts.end(), is_near));
  return local;
}

std::string to_text(const LocalRanks& local) {
  return std::to_string(local.index) + "/" + std::to_string(local.count) + "+" + std::to_string(local.switches);
}

LocalRanks read_local_ranks(const std::string& text) {
  LocalRanks local;
  const size_t slash = text.find('/');
  const size_t plus = text.find('+');
  if (slash == std::string::npos || plus == std::string::npos || plus < slash) return {};
  const auto count = parse_integer(text.substr(slash + 1, plus - slash - 1), 1, kMaxWorkers);
  const auto index = parse_integer(text.substr(0, slash), 0, count ? *count - 1 : 0);
  const auto switches = parse_integer(text.substr(plus + 1), 0, kMaxWorkers);
  if (!count || !index || !switches) return {};
  local.index = static_cast<int>(*index);
  local.count = static_cast<int>(*count);
  local.switches = static_cast<int>(*switches);
  return local;
}

std::vector<std::vector<int>> place_automatically(const PlacementInput& input) {
  const auto known = std::count_if(input.machine.nodes.begin(), input.machine.nodes.end(),
                                   [](const std::vector<int>& node) { return !node.empty(); });
  if (known < 2 || input.node < 0 || static_cast<size_t>(input.node) >= input.machine.nodes.size()) return {};
  const bool whole =
      input.allowed == input.machine.online && static_cast<size_t>(input.concurrent) == input.machine.online.size();
  const std::vector<int>& near = input.machine.nodes[static_cast<size_t>(input.node)];
  const auto threads = static_cast<size_t>(input.local.engine_threads(input.shards));
  if (!whole || near.size() <= threads) return {};
  const auto count = static_cast<size_t>(input.local.count);
  const auto begin = static_cast<size_t>(input.local.index) * near.size() / count;
  const auto end = (static_cast<size_t>(input.local.index) + 1) * near.size() / count;
  std::vector<int> share(near.begin() + static_cast<std::ptrdiff_t>(begin),
                         near.begin() + static_cast<std::ptrdiff_t>(end));
  std::sort(share.begin(), share.end());
  return std::vector<std::vector<int>>(static_cast<size_t>(input.shards), share);
}

std::vector<std::vector<int>> place_on(const std::vector<int>& list, const LocalRanks& local, int shards) {
  std::vector<std::vector<int>> places;
  for (int shard = 0; shard < shards && !list.empty(); ++shard) {
    places.push_back({list[static_cast<size_t>(local.index * shards + shard) % list.size()]});
  }
  return places;
}

Status check_affinity(const Config& config) {
  const auto list = parse_processor_list(config.affinity);
  if (!list) return {};  // auto, off
  const std::vector<int> allowed = allowed_processors();
  for (const int processor : *list) {
    if (allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), processor)) continue;
    return {Code::kInvalidArgument,
            "SWITCHML_AFFINITY=\"" + config.affinity + "\" names processor " + std::to_string(processor) +
                ", on which this process may not run: use some of " + to_processor_list(allowed) + ", auto or off"};
  }
  return {};
}

void place_threads(const Config& config, const LocalRanks& local, const Endpoint& local_address, int shards,
                   EngineOptions* options) {
  options->spin = spin_time(local.engine_threads(shards));
  if (config.affinity == "off") return;
  if (const auto list = parse_processor_list(config.affinity)) {
    options->processors = place_on(*list, local, shards);
  } else {
    PlacementInput input;
    input.machine = read_machine();
    input.node = node_of_interface(interface_of(local_address));
    input.allowed = allowed_processors();
    input.concurrent = concurrent_threads();
    input.local = local;
    input.shards = shards;
    options->processors = place_automatically(input);
  }
  for (size_t shard = 0; shard < options->processors.size(); ++shard) {
    SWITCHML_LOG(kInfo) << "engine thread " << shard << " of rank " << options->session.name_of(options->session.worker)
                        << " runs on processors " << to_processor_list(options->processors[shard]);
  }
}

}  // namespace switchml
