// CPU time of another process' threads, from /proc.
#pragma once

#include <string>

namespace switchml::bench {

struct ProcessTime {
  int threads = 0;
  double cpu_seconds = 0;     // all that the scheduler gave them
  double user_seconds = 0;    // of it; in steps of 10 ms
  double system_seconds = 0;  // of it, soft interrupts that ran on top of it included; in steps of 10 ms
};

/// Sum over the threads of `pid` that have this name; the process' first thread, which has its program's name and may
/// seem to be one of them, counts only where there is no other. Without such a thread: threads is 0.
ProcessTime process_time(int pid, const std::string& thread_name);

}  // namespace switchml::bench
