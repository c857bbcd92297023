// Where engine threads run, and whether they may busy-poll for results before they sleep. Decided from the setting, and
// from the processors that the ranks of a machine have between them.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/processors.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/spin_wait.h"

namespace switchml {

/// Ranks of one group on one machine.
struct MachineRanks {
  int index = 0;  // This rank's among them.
  int count = 1;
  int processors = 1;     // All that they have between them.
  bool may_spin = false;  // Each of their threads that wait for each other has one.
  Duration spin() const { return may_spin ? kSpin : Duration(0); }
};
/// The neighbours of each rank: `hosts`, host_identity() each, their processors, and how many threads of each are
/// busy when those of the others are. Ranks in several network namespaces of one machine share its processors.
std::vector<MachineRanks> machine_ranks(const std::vector<std::string>& hosts,
                                        const std::vector<ProcessorShare>& shares, const std::vector<int>& threads);
/// "2/8/6/0": as rank 0 tells the others; what cannot be read is a rank alone.
std::string to_text(const MachineRanks& local);
MachineRanks read_machine_ranks(const std::string& text);

/// One processor of the list for each thread, in rotation over the ranks of the machine and their shards. Pure.
std::vector<std::vector<int>> place_on(const std::vector<int>& list, const MachineRanks& local, int shards);

/// Whether SWITCHML_AFFINITY names only processors that this process may use; else an error that says which one it may
/// not, and which it may.
Status check_affinity(const Config& config);
/// Sets EngineOptions::processors. `shards`: those that this rank drives.
void place_threads(const Config& config, const MachineRanks& local, int shards, EngineOptions* options);

}  // namespace switchml
