#include "session/placement.h"

#include <algorithm>

#include "base/log.h"
#include "base/parse.h"
#include "base/processors.h"
#include "engine/spin_wait.h"

namespace switchml {

MachineRanks machine_ranks(const std::vector<std::string>& hosts, int rank, const std::vector<int>& switch_ranks) {
  const auto machine = [&](int r) {
    const std::string& host = hosts[static_cast<size_t>(r)];
    return host.substr(0, host.find('/'));
  };
  const auto is_near = [&](int other) { return machine(other) == machine(rank); };
  MachineRanks local;
  local.count = 0;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (!is_near(other)) continue;
    if (other == rank) local.index = local.count;
    ++local.count;
  }
  local.switches = static_cast<int>(std::count_if(switch_ranks.begin(), switch_ranks.end(), is_near));
  return local;
}

std::string to_text(const MachineRanks& local) {
  return std::to_string(local.index) + "/" + std::to_string(local.count) + "+" + std::to_string(local.switches);
}

MachineRanks read_machine_ranks(const std::string& text) {
  MachineRanks local;
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

std::vector<std::vector<int>> place_on(const std::vector<int>& list, const MachineRanks& local, int shards) {
  std::vector<std::vector<int>> places;
  for (int shard = 0; shard < shards && !list.empty(); ++shard) {
    places.push_back({list[static_cast<size_t>(local.index * shards + shard) % list.size()]});
  }
  return places;
}

Status check_affinity(const Config& config) {
  const auto list = parse_processor_list(config.affinity);
  if (!list) return {};  // off
  const std::vector<int> allowed = allowed_processors();
  for (const int processor : *list) {
    if (allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), processor)) continue;
    return {Code::kInvalidArgument,
            "SWITCHML_AFFINITY=\"" + config.affinity + "\" names processor " + std::to_string(processor) +
                ", on which this process may not run: use some of " + to_processor_list(allowed) + ", or off"};
  }
  return {};
}

void place_threads(const Config& config, const MachineRanks& local, int shards, EngineOptions* options) {
  options->spin = spin_time(local.engine_threads(shards));
  const auto list = parse_processor_list(config.affinity);
  if (!list) return;
  options->processors = place_on(*list, local, shards);
  for (size_t shard = 0; shard < options->processors.size(); ++shard) {
    SWITCHML_LOG(kInfo) << "engine thread " << shard << " of rank " << options->session.name_of(options->session.worker)
                        << " runs on processors " << to_processor_list(options->processors[shard]);
  }
}

}  // namespace switchml
