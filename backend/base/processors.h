// The processors that this process may use: its affinity mask, and how much of their time its control groups grant; and
// whether several processes of a machine have enough of them together. Files are read below `root`, which is empty but
// for tests.
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
/// The other way round.
std::string to_processor_list(const std::vector<int>& processors);

/// On which the calling thread may run, ascending; empty if the kernel does not say.
std::vector<int> allowed_processors();

/// Restricts the calling thread to these; what it starts later inherits it. False if the system refuses.
bool run_on(const std::vector<int>& processors);

/// What a control group (v1 or v2) leaves its processes together: processors' worth of time per second, 1.5 for
/// example.
struct ProcessorQuota {
  std::string group;  // the same text in all processes of the machine that are in it
  double processors = 0;
};

/// What a process may use.
struct ProcessorShare {
  std::vector<int> allowed;
  std::vector<ProcessorQuota> quotas;  // Limits of its control groups, and of those above that can be seen.
};
/// The calling thread's.
ProcessorShare own_processors(const std::string& root = "");
/// "0-3,8 2:77=1.5": as processes tell each other; what cannot be read allows nothing.
std::string to_text(const ProcessorShare& share);
ProcessorShare read_processor_share(const std::string& text);

/// Whether processes of one machine, the i-th with `threads[i]` threads, can all run at the same time: each thread on a
/// processor of its own, and each control group lets its processes.
bool all_run_at_once(const std::vector<ProcessorShare>& shares, const std::vector<int>& threads);
/// How many processors' worth of time they have between them.
double processors_between(const std::vector<ProcessorShare>& shares);

}  // namespace switchml
