// Where engine threads run, and whether they may busy-poll for results before they sleep. Decided from the setting, the
// process's mask, and how many ranks the machine has.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "engine/engine.h"

namespace switchml {

/// Ranks of one group on one machine.
struct MachineRanks {
  int index = 0;  // of this rank among them
  int count = 1;
  int switches = 0;  // that some of them host, whose threads are busy when theirs are
  int engine_threads(int shards) const { return count * shards + switches; }
  /// Where they share memory, `ranks` of each host, of whom `owners` drive a shard as well.
  int memory_threads(int ranks, int owners) const { return engine_threads(1) + (count * owners + ranks - 1) / ranks; }
};
/// Who is whose neighbour: `hosts` by rank, host_identity() each, and the ranks that host a switch. Ranks in several
/// network namespaces of one machine share its processors.
MachineRanks machine_ranks(const std::vector<std::string>& hosts, int rank, const std::vector<int>& switch_ranks);
/// "2/8+1": as rank 0 tells the others; what cannot be read is a rank alone.
std::string to_text(const MachineRanks& local);
MachineRanks read_machine_ranks(const std::string& text);

/// One processor of the list for each thread, in rotation over the ranks of the machine and their shards. Pure.
std::vector<std::vector<int>> place_on(const std::vector<int>& list, const MachineRanks& local, int shards);

/// Whether SWITCHML_AFFINITY names only processors that this process may use; else an error that says which one it may
/// not, and which it may.
Status check_affinity(const Config& config);
/// Sets EngineOptions::spin and ::processors. `shards`: those that this rank drives.
void place_threads(const Config& config, const MachineRanks& local, int shards, EngineOptions* options);

}  // namespace switchml
