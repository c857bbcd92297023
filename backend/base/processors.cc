#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/parse.h"

namespace switchml {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const double q = std::atof(quota.c_str());
  const double p = std::atof(period.c_str());
  if (!(q > 0) || !(p > 0)) return std::nullopt;  // "max", "-1", or no such file
  return q / p;
}

/// What the files of one group say; `folder` ends with a slash.
std::optional<double> quota_of(const std::string& folder, bool unified) {
  if (!unified) return ratio(read_text_file(folder + "cpu.cfs_quota_us"), read_text_file(folder + "cpu.cfs_period_us"));
  std::istringstream words(read_text_file(folder + "cpu.max"));
  std::string quota, period;
  words >> quota >> period;
  return ratio(quota, period);
}

/// The least from `path` ("/a/b") up to the group at `mount`. In a container what is mounted may begin further down
/// than the path does: groups that are not there say nothing.
std::optional<double> least_quota(const std::string& mount, std::string path, bool unified) {
  std::optional<double> least;
  for (;;) {
    const auto quota = quota_of(mount + path + (path.empty() || path.back() != '/' ? "/" : ""), unified);
    if (quota && (!least || *quota < *least)) least = quota;
    if (path.empty()) return least;
    path.erase(path.rfind('/'));
  }
}

// Larger than cpu_set_t, which ends at 1024 processors.
struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using Set = std::unique_ptr<cpu_set_t, FreeSet>;
const size_t kSetBytes = CPU_ALLOC_SIZE(kMaxProcessors);

Set empty_set() {
  Set set(CPU_ALLOC(kMaxProcessors));
  if (set) CPU_ZERO_S(kSetBytes, set.get());
  return set;
}

}  // namespace

std::optional<std::vector<int>> parse_processor_list(const std::string& text) {
  if (text.empty() || text.back() == ',') return std::nullopt;
  std::vector<int> processors;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash), 0, kMaxProcessors - 1);
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1), 0, kMaxProcessors - 1);
    if (!first || !last || *last < *first) return std::nullopt;
    for (long p = *first; p <= *last; ++p) processors.push_back(static_cast<int>(p));
  }
  std::sort(processors.begin(), processors.end());
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  return processors;
}

std::string to_processor_list(const std::vector<int>& processors) {
  std::string text;
  for (size_t i = 0; i < processors.size();) {
    size_t end = i + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(processors[i]);
    if (end - i > 1) text += "-" + std::to_string(processors[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> allowed_processors() {
  const Set set = empty_set();
  std::vector<int> processors;
  if (!set || ::sched_getaffinity(0, kSetBytes, set.get()) != 0) return processors;
  for (int p = 0; p < kMaxProcessors; ++p) {
    if (CPU_ISSET_S(static_cast<size_t>(p), kSetBytes, set.get())) processors.push_back(p);
  }
  return processors;
}

bool run_on(const std::vector<int>& processors) {
  const Set set = empty_set();
  if (!set) return false;
  for (const int p : processors) CPU_SET_S(static_cast<size_t>(p), kSetBytes, set.get());
  return ::sched_setaffinity(0, kSetBytes, set.get()) == 0;
}

std::optional<double> processor_quota(const std::string& root) {
  std::optional<double> least;
  for (const std::string& line : split(read_text_file(root + "/proc/self/cgroup"), '\n')) {
    // "0::/path" of the unified hierarchy, "4:cpu,cpuacct:/path" of an old one.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> names = split(controllers, ',');
    const bool unified = controllers.empty();
    if (!unified && std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    const std::string mounts = root + "/sys/fs/cgroup";
    for (const std::string& mount : unified ? std::vector<std::string>{mounts, mounts + "/unified"}
                                            : std::vector<std::string>{mounts + "/cpu", mounts + "/" + controllers}) {
      const auto quota = least_quota(mount, path, unified);
      if (quota && (!least || *quota < *least)) least = quota;
    }
  }
  return least;
}

int concurrent_threads(const std::string& root) {
  const auto allowed = static_cast<double>(allowed_processors().size());
  return static_cast<int>(std::min(allowed, processor_quota(root).value_or(allowed)));
}

}  // namespace switchml
