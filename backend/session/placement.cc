#include "session/placement.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/log.h"
#include "base/parse.h"

namespace switchml {

std::vector<MachineRanks> machine_ranks(const std::vector<std::string>& hosts,
                                        const std::vector<ProcessorShare>& shares, const std::vector<int>& threads) {
  std::map<std::string, std::vector<size_t>> machines;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    machines[hosts[rank].substr(0, hosts[rank].find('/'))].push_back(rank);
  }
  std::vector<MachineRanks> all(hosts.size());
  for (const auto& [_, ranks] : machines) {
    std::vector<ProcessorShare> shares_here;
    std::vector<int> threads_here;
    for (const size_t rank : ranks) {
      shares_here.push_back(shares[rank]);
      threads_here.push_back(threads[rank]);
    }
    const auto processors = static_cast<int>(processors_between(shares_here));
    const bool may_spin = all_run_at_once(shares_here, threads_here);
    for (size_t i = 0; i < ranks.size(); ++i) {
      all[ranks[i]] = {static_cast<int>(i), static_cast<int>(ranks.size()), processors, may_spin};
    }
  }
  return all;
}

std::string to_text(const MachineRanks& local) {
  return std::to_string(local.index) + "/" + std::to_string(local.count) + "/" + std::to_string(local.processors) +
         (local.may_spin ? "/1" : "/0");
}

MachineRanks read_machine_ranks(const std::string& text) {
  std::istringstream words(text);
  std::vector<long> numbers;
  for (std::string word; std::getline(words, word, '/');) {
    numbers.push_back(parse_integer(word, 0, kMaxProcessors).value_or(-1));
  }
  const bool sane = numbers.size() == 4 && numbers[1] <= kMaxRanks && numbers[0] >= 0 && numbers[0] < numbers[1] &&
                    numbers[2] >= 0 && (numbers[3] == 0 || numbers[3] == 1);
  if (!sane) return {};
  return {static_cast<int>(numbers[0]), static_cast<int>(numbers[1]), static_cast<int>(numbers[2]), numbers[3] == 1};
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
  const auto list = parse_processor_list(config.affinity);
  if (!list) return;
  options->processors = place_on(*list, local, shards);
  for (size_t shard = 0; shard < options->processors.size(); ++shard) {
    SWITCHML_LOG(kInfo) << "engine thread " << shard << " of rank " << options->session.name_of(options->session.worker)
                        << " runs on processors " << to_processor_list(options->processors[shard]);
  }
}

}  // namespace switchml
