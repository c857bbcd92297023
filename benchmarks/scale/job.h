// A job: workers on some of the hosts, a session on the switches of a tree, and the move to another tree. The
// controller, the store and the opening of sessions are simulated as delays.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "slots/resync_plan.h"
#include "switch_end.h"
#include "worker_end.h"

namespace switchml::scale {

using Switches = std::vector<std::unique_ptr<SwitchEnd>>;

struct TreeOptions {
  size_t bytes = 1 << 20;  // Size of each worker's tensor.
  size_t payload_bytes = 8192;
  int slots = 32;
  bool spread = false;                   // Each job's tree has another plane.
  int jobs = 1;                          // Host h belongs to job h % jobs.
  Instant dies_at = kNoInstant;          // Death of the first tree's topmost switch.
  Duration notice = milliseconds(300);   // Time until ranks learn of it.
  Duration stagger = microseconds(200);  // Spread of the ranks in each step.
  Duration hand_over = milliseconds(5);  // Time of the exchange between steps.
  bool spoil = false;                    // Expects a wrong sum.
  uint64_t seed = 1;
};

/// A tree's choice among the parallel switches.
struct Tree {
  int plane = 0;
  int core = 0;
};

class Job {
 public:
  Job(int number, const TreeOptions& options, const Inputs& inputs, Carrier* carrier, Switches* switches);

  /// Makes a worker on each host; `first`: the first one's number among all workers.
  void make_workers(const std::vector<int>& hosts, uint32_t first);
  WorkerEnd& worker(size_t index) { return *workers_[index]; }
  size_t workers() const { return workers_.size(); }
  /// Installs the session at the tree's switches.
  void install(Tree tree);
  int top() const;

  // ---- to another tree ----
  void begin_move();
  void suspend(size_t index);
  void hand_over();
  void resume(size_t index);

  bool over() const;
  Instant ended_at() const;
  std::string wrong() const;
  size_t handed_over() const { return handed_over_; }

 private:
  Route route() const;
  EngineOptions engine(int member, int members) const;
  softswitch::InstalledSession session() const;
  void install_at(int node, softswitch::InstalledSession session, const std::map<int, uint32_t>& members);
  void at_each(EventKind kind, Duration after);
  uint64_t random();

  const int number_;
  const TreeOptions options_;
  const Inputs& inputs_;
  Carrier* carrier_;
  Switches* switches_;
  Tree tree_;
  int moves_ = 0;
  uint32_t first_ = 0;
  uint64_t random_;
  std::vector<int> hosts_;
  std::unique_ptr<Results> results_;
  std::vector<std::unique_ptr<WorkerEnd>> workers_;
  std::vector<std::vector<uint32_t>> accepted_;  // Index: worker.
  size_t suspended_ = 0;
  size_t handed_over_ = 0;
};

}  // namespace switchml::scale
