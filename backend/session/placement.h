// Where engine threads run, and whether they may busy-poll for results before they sleep. Decided from what the
// machine, the process's mask and the other ranks of the host are like; without gain nothing is decided, and a mask
// that somebody has narrowed (taskset, a launcher's NUMA binding, a container's cpuset) is left as it is.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "engine/engine.h"
#include "transport/transport.h"

namespace switchml {

/// Processors of a machine.
struct Machine {
  std::vector<int> online;              // ascending
  std::vector<std::vector<int>> nodes;  // by NUMA node: online ones, processors of one core next to each other
};
/// From /sys below `root` (empty but for tests); what is not there is left empty.
Machine read_machine(const std::string& root = "");
/// The NUMA node that the interface's device is attached to; -1: none, or not known.
int node_of_interface(const std::string& interface, const std::string& root = "");

/// Ranks of one group on one machine.
struct LocalRanks {
  int index = 0;  // of this rank among them
  int count = 1;
  int switches = 0;  // that some of them host, whose threads are busy when theirs are
  int engine_threads(int shards) const { return count * shards + switches; }
  /// Where they share memory, `ranks` of each host, of whom `owners` drive a shard as well.
  int memory_threads(int ranks, int owners) const { return engine_threads(1) + (count * owners + ranks - 1) / ranks; }
};
/// Who is whose neighbour: `hosts` by rank, host_identity() each, and the ranks that host a switch. Ranks in several
/// network namespaces of one machine share its processors.
LocalRanks local_ranks(const std::vector<std::string>& hosts, int rank, const std::vector<int>& switch_hosts);
/// "2/8+1": as rank 0 tells the others; what cannot be read is a rank alone.
std::string to_text(const LocalRanks& local);
LocalRanks read_local_ranks(const std::string& text);

struct PlacementInput {
  Machine machine;
  int node = -1;             // of the interface that the packets go through
  std::vector<int> allowed;  // the process's mask
  int concurrent = 0;        // threads that mask and quota let run at the same time
  LocalRanks local;
  int shards = 1;
};
/// For each shard the processors that its thread is to run on; empty: no change. Pure.
/// Auto: with several NUMA nodes, of which the interface's is known and has more processors than the machine's engine
/// threads of this group, and the whole machine allowed: each rank an equal share of that node.
std::vector<std::vector<int>> place_automatically(const PlacementInput& input);
/// One processor of the list for each thread, in rotation over the ranks of the machine and their shards. Pure.
std::vector<std::vector<int>> place_on(const std::vector<int>& list, const LocalRanks& local, int shards);

/// Whether SWITCHML_AFFINITY names only processors that this process may use; else an error that says which one it may
/// not, and which it may.
Status check_affinity(const Config& config);
/// Sets EngineOptions::spin and ::processors. `shards`: those that this rank drives.
void place_threads(const Config& config, const LocalRanks& local, const Endpoint& local_address, int shards,
                   EngineOptions* options);

}  // namespace switchml
