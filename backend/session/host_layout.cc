#include "session/host_layout.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/limits.h"

namespace switchml {

namespace {

// Each must have chunks of the board in both directions at once, or it waits for itself.
constexpr int kSlotsPerOwner = 2;
// Messages name all ranks of a host up to so many, and else the first three and the last one.
constexpr size_t kMostNamed = 8;

std::string one_of(const std::vector<int>& ranks) {
  const bool all = ranks.size() <= kMostNamed;
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!all && i == 3) text += ", ...";
    if (!all && i >= 3 && i + 1 < ranks.size()) continue;
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " or " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

std::string allowed(int most, const char* what) { return ": allowed are up to " + std::to_string(most) + " " + what; }

/// The setting, or whatever else makes each rank a worker of the switch. Empty: hosts are the workers. A controller
/// places each rank by itself, what takes a lost switch's place knows ranks alone, and several engine threads a rank
/// are had where they are asked for.
std::string why_ranks_are_workers(const Config& config, const HostLayout& layout, bool faults) {
  if (layout.hosts() == 1 || layout.most() == 1) return "the layout of the hosts";
  if (config.transport == "udp") return "SWITCHML_TRANSPORT=udp";
  if (!config.controller.empty()) return "SWITCHML_CONTROLLER";
  if (config.fallback) return "SWITCHML_ON_SWITCH_FAILURE=fallback";
  if (config.shards != 1) return "SWITCHML_SHARDS=" + std::to_string(config.shards);
  if (faults) return "SWITCHML_FAULTS";
  if (config.precision == Precision::kExact && config.payload_bytes != 0 &&
      config.payload_bytes < kMinPartialSumPayload) {  // [PART-9]
    return "SWITCHML_PRECISION=exact with SWITCHML_PAYLOAD=" + std::to_string(config.payload_bytes);
  }
  if (config.slots != 0 && config.slots < layout.owners() * kMinSlots)
    return "SWITCHML_SLOTS=" + std::to_string(config.slots);
  return "";
}

}  // namespace

HostLayout HostLayout::numbered(std::vector<int> host_of) {
  HostLayout layout;
  layout.host_of_ = std::move(host_of);
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const auto host = static_cast<size_t>(layout.host_of(rank));
    if (host >= layout.ranks_of_.size()) layout.ranks_of_.resize(host + 1);
    layout.ranks_of_[host].push_back(rank);
  }
  return layout;
}

HostLayout HostLayout::of(const std::vector<std::string>& identities) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of;
  host_of.reserve(identities.size());
  for (const std::string& identity : identities) {
    host_of.push_back(numbers.emplace(identity, static_cast<int>(numbers.size())).first->second);  // [HOST-1]
  }
  return numbered(std::move(host_of));
}

std::vector<int> HostLayout::leaders() const {
  std::vector<int> leaders;
  for (const std::vector<int>& ranks : ranks_of_) leaders.push_back(ranks.front());
  return leaders;
}

std::string HostLayout::text() const {
  std::string text;
  for (const int host : host_of_) text += (text.empty() ? "" : " ") + std::to_string(host);
  return text;
}

Result<HostLayout> HostLayout::parse(const std::string& text, int ranks) {
  std::istringstream words(text);
  std::vector<int> host_of;
  int hosts = 0;
  bool sane = true;
  for (int host = 0; words >> host;) {
    sane = sane && host >= 0 && host <= hosts;  // a new one has the next number
    if (!sane) break;
    hosts = std::max(hosts, host + 1);
    host_of.push_back(host);
  }
  if (!sane || !words.eof() || static_cast<int>(host_of.size()) != ranks) {
    return Status(Code::kMismatch, "rank 0 says that ranks are on the hosts \"" + text.substr(0, 100) +
                                       "\", which is no host for each of " + std::to_string(ranks) +
                                       " ranks: install the same switchml on all ranks");
  }
  return numbered(std::move(host_of));
}

int HostLayout::place_of(int rank) const {
  const std::vector<int>& here = ranks_of(host_of(rank));
  return static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin());
}

int HostLayout::most() const {
  size_t most = 0;
  for (const auto& here : ranks_of_) most = std::max(most, here.size());
  return static_cast<int>(most);
}

int HostLayout::least() const {
  size_t least = host_of_.size();
  for (const auto& here : ranks_of_) least = std::min(least, here.size());
  return static_cast<int>(least);
}

int HostLayout::owners() const { return std::min(least(), shm::shape_for(most()).slots / kSlotsPerOwner); }

std::vector<std::string> HostLayout::names() const {
  std::vector<std::string> names;
  for (const auto& here : ranks_of_) names.push_back(one_of(here) + (here.size() == 1 ? "" : " (one host)"));
  return names;
}

bool wants_hosts(const Config& config, const HostLayout& layout, bool faults) {
  return why_ranks_are_workers(config, layout, faults).empty();
}

Status check_limits(const Config& config, const HostLayout& layout, bool faults) {
  const std::string group = "a group of " + std::to_string(layout.ranks()) + " ranks";
  if (layout.hosts() > kMaxWorkers) {
    return {Code::kInvalidArgument, group + " on " + std::to_string(layout.hosts()) + " hosts" +
                                        allowed(kMaxWorkers, "hosts: use fewer, with more ranks each")};
  }
  for (int host = 0; host < layout.hosts(); ++host) {
    const auto here = static_cast<int>(layout.ranks_of(host).size());
    if (here <= kMaxHostRanks) continue;
    return {Code::kInvalidArgument, group + " with " + std::to_string(here) + " on the host of rank " +
                                        std::to_string(layout.ranks_of(host).front()) +
                                        allowed(kMaxHostRanks, "ranks of a host: use more hosts")};
  }
  if (layout.ranks() <= kMaxWorkers) return {};
  const std::string why = why_ranks_are_workers(config, layout, faults);
  if (why.empty()) return {};
  return {Code::kInvalidArgument, group + " that send to the switch by themselves, because of " + why +
                                      allowed(kMaxWorkers,
                                              "such ranks: leave that out, so that each host sends as "
                                              "one, or make smaller groups")};
}

}  // namespace switchml
