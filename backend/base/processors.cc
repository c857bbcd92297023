#include "base/processors.h"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
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
  if (!(q > 0) || !(p > 0)) return std::nullopt;  // "max", "-1", or no such file.
  return q / p;
}

/// The quota in the files of one group; `folder` ends with a slash.
std::optional<double> quota_of(const std::string& folder, bool unified) {
  if (!unified) return ratio(read_text_file(folder + "cpu.cfs_quota_us"), read_text_file(folder + "cpu.cfs_period_us"));
  std::istringstream words(read_text_file(folder + "cpu.max"));
  std::string quota, period;
  words >> quota >> period;
  return ratio(quota, period);
}

/// Adds the quotas of the groups from `path` ("/a/b") up to that at `mount`. A container may mount only the lower
/// groups of the path: the others are skipped.
void add_quotas(const std::string& mount, std::string path, bool unified, std::vector<ProcessorQuota>* quotas) {
  for (;;) {
    const std::string folder = mount + path + (path.empty() || path.back() != '/' ? "/" : "");
    const auto quota = quota_of(folder, unified);
    struct stat group {};
    if (quota && ::stat(folder.c_str(), &group) == 0) {
      const std::string name = (unified ? "2:" : "1:") + std::to_string(group.st_ino);
      const auto same = [&](const ProcessorQuota& other) { return other.group == name; };
      if (std::none_of(quotas->begin(), quotas->end(), same)) quotas->push_back({name, *quota});  // Mounts may repeat.
    }
    if (path.empty()) return;
    path.erase(path.rfind('/'));
  }
}

// A set larger than cpu_set_t, which ends at 1024 processors.
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

namespace {

std::vector<ProcessorQuota> processor_quotas(const std::string& root) {
  std::vector<ProcessorQuota> quotas;
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
      add_quotas(mount, path, unified, &quotas);
    }
  }
  return quotas;
}

/// Gives each thread a processor of its own: a bipartite matching by augmenting paths.
class Seating {
 public:
  explicit Seating(const std::vector<ProcessorShare>& shares) : shares_(shares), taken_by_(kMaxProcessors, kNone) {}

  bool seat(size_t process) {
    tried_.assign(kMaxProcessors, false);
    return find(process);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  bool find(size_t process) {
    const std::vector<int>& allowed = shares_[process].allowed;
    const auto is_free = [this](int processor) { return taken_by(processor) == kNone; };
    if (const auto free = std::find_if(allowed.begin(), allowed.end(), is_free); free != allowed.end()) {
      taken_by(*free) = process;
      return true;
    }
    for (const int processor : allowed) {
      if (tried_[static_cast<size_t>(processor)]) continue;
      tried_[static_cast<size_t>(processor)] = true;
      if (!find(taken_by(processor))) continue;
      taken_by(processor) = process;
      return true;
    }
    return false;
  }
  size_t& taken_by(int processor) { return taken_by_[static_cast<size_t>(processor)]; }

  const std::vector<ProcessorShare>& shares_;
  std::vector<size_t> taken_by_;  // Processor -> process.
  std::vector<bool> tried_;       // Processor -> whether this search has been there.
};

}  // namespace

ProcessorShare own_processors(const std::string& root) { return {allowed_processors(), processor_quotas(root)}; }

std::string to_text(const ProcessorShare& share) {
  std::string text = to_processor_list(share.allowed);
  for (const ProcessorQuota& quota : share.quotas) text += " " + quota.group + "=" + std::to_string(quota.processors);
  return text;
}

ProcessorShare read_processor_share(const std::string& text) {
  ProcessorShare share;
  const std::vector<std::string> words = split(text, ' ');
  if (words.empty()) return {};
  share.allowed = parse_processor_list(words[0]).value_or(std::vector<int>{});
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos) return {};
    share.quotas.push_back({words[i].substr(0, equals), std::atof(words[i].c_str() + equals + 1)});
  }
  return share;
}

bool all_run_at_once(const std::vector<ProcessorShare>& shares, const std::vector<int>& threads) {
  std::map<std::string, double> left;
  for (size_t i = 0; i < shares.size(); ++i) {
    for (const ProcessorQuota& quota : shares[i].quotas) {
      double& of_group = left.emplace(quota.group, quota.processors).first->second;
      if ((of_group -= threads[i]) < 0) return false;
    }
  }
  Seating seating(shares);
  for (size_t i = 0; i < shares.size(); ++i) {
    for (int thread = 0; thread < threads[i]; ++thread) {
      if (!seating.seat(i)) return false;
    }
  }
  return true;
}

double processors_between(const std::vector<ProcessorShare>& shares) {
  std::set<int> all;
  for (const ProcessorShare& share : shares) all.insert(share.allowed.begin(), share.allowed.end());
  double sum = 0;  // Each control group counts once.
  std::set<std::string> counted;
  for (const ProcessorShare& share : shares) {
    const auto less = [](const ProcessorQuota& a, const ProcessorQuota& b) { return a.processors < b.processors; };
    const auto least = std::min_element(share.quotas.begin(), share.quotas.end(), less);
    if (least == share.quotas.end()) return static_cast<double>(all.size());
    if (counted.insert(least->group).second) sum += least->processors;
  }
  return std::min(static_cast<double>(all.size()), sum);
}

}  // namespace switchml
