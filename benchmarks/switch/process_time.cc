#include "process_time.h"

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

namespace switchml::bench {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Fields 14 and 15 of `stat`, in clock ticks. The name in field 2 may have blanks: counting starts behind it.
void add_ticks(const std::string& stat, ProcessTime* out) {
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  out->user_seconds += user / ticks;
  out->system_seconds += system / ticks;
}

}  // namespace

ProcessTime process_time(int pid, const std::string& thread_name) {
  ProcessTime first, others;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(tasks.c_str()), &::closedir);
  if (!folder) return {};
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string task = tasks + "/" + entry->d_name;
    ProcessTime& out = entry->d_name == std::to_string(pid) ? first : others;
    if (entry->d_name[0] == '.' || first_line(task + "/comm") != thread_name) continue;
    double nanoseconds = 0;
    std::istringstream(first_line(task + "/schedstat")) >> nanoseconds;
    out.cpu_seconds += nanoseconds * 1e-9;
    add_ticks(first_line(task + "/stat"), &out);
    ++out.threads;
  }
  return others.threads != 0 ? others : first;
}

}  // namespace switchml::bench
