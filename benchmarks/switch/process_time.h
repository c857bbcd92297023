// CPU time of another process' threads, from /proc.
#pragma once

#include <string>

namespace switchml::bench {

struct ProcessTime {
  int threads = 0;
  double cpu_seconds = 0;     // CPU time by the scheduler's count.
  double user_seconds = 0;    // In steps of 10 ms.
  double system_seconds = 0;  // In steps of 10 ms, with soft interrupts on top.
};

/// Sum over the threads of `pid` with this name. The process' first thread, which has its program's name, counts only
/// if there is no other. `threads` is 0 if there is none.
ProcessTime process_time(int pid, const std::string& thread_name);

}  // namespace switchml::bench
