// The processors that this process may use: its affinity mask, and how much of their time its control groups grant.
// Files are read below `root`, which is empty but for tests.
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

/// Processors' worth of time per second that the process's control groups (v1 or v2) leave it, 1.5 for example: the
/// least of its group's and of those above that can be seen. nullopt: no limit.
std::optional<double> processor_quota(const std::string& root = "");

/// How many threads of this process can run at the same time, by mask and quota; 0 if not even one always can.
int concurrent_threads(const std::string& root = "");

}  // namespace switchml
