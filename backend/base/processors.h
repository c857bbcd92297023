// The processors that this process may use: its affinity mask, and the CPU time that its control groups grant; and
// whether several processes of a machine have enough processors together. Files are read below `root`, which only
// tests set.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace switchml {

/// Processors are numbered 0 to kMaxProcessors - 1.
inline constexpr int kMaxProcessors = 8192;

/// "0-3,8" to {0, 1, 2, 3, 8}: numbers and ranges in any order, each processor once in the result, ascending. nullopt:
/// anything else, and the empty text.
std::optional<std::vector<int>> parse_processor_list(const std::string& text);
/// The inverse of parse_processor_list().
std::string to_processor_list(const std::vector<int>& processors);

/// The calling thread's affinity mask, ascending; empty if the kernel does not say.
std::vector<int> allowed_processors();

/// Restricts the calling thread to these, and threads that it starts later. False if the system refuses.
bool run_on(const std::vector<int>& processors);

/// CPU bandwidth that a control group (v1 or v2) grants its processes together, in processors: 1.5 is 1.5 s of CPU
/// time per second.
struct ProcessorQuota {
  std::string group;  // The group's id, the same in all processes of the machine.
  double processors = 0;
};

/// The processors that a process may use.
struct ProcessorShare {
  std::vector<int> allowed;
  std::vector<ProcessorQuota> quotas;  // Limits of its control groups, and of their visible parents.
};
/// The calling thread's.
ProcessorShare own_processors(const std::string& root = "");
/// "0-3,8 2:77=1.5", the form in which processes exchange it. A malformed text allows nothing.
std::string to_text(const ProcessorShare& share);
ProcessorShare read_processor_share(const std::string& text);

/// Whether processes of one machine, the i-th with `threads[i]` threads, can all run at the same time: each thread on a
/// processor of its own, and each control group lets its processes.
bool all_run_at_once(const std::vector<ProcessorShare>& shares, const std::vector<int>& threads);
/// The CPU time that they have together, in processors.
double processors_between(const std::vector<ProcessorShare>& shares);

}  // namespace switchml
