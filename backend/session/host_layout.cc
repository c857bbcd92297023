#include "session/host_layout.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/limits.h"

namespace switchml {

namespace {

// Each must have chunks of the board in both directions at once, or it waits for itself.
constexpr int kSlotsPerOwner = 2;

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
  for (const auto& here : ranks_of_) {
    std::string name;
    for (size_t i = 0; i < here.size(); ++i) {
      name += (i == 0 ? "" : i + 1 == here.size() ? " or " : ", ") + std::to_string(here[i]);
    }
    names.push_back(here.size() == 1 ? name : name + " (one host)");
  }
  return names;
}

// A controller places each rank by itself, what takes a lost switch's place knows ranks
// alone, and several engine threads a rank are had where they are asked for.
bool wants_hosts(const Config& config, const HostLayout& layout, bool faults) {
  const bool by_themselves =
      config.transport == "udp" || !config.controller.empty() || config.fallback || config.shards != 1 || faults;
  const bool is_short = config.precision == Precision::kExact && config.payload_bytes != 0 &&
                        config.payload_bytes < kMinPartialSumPayload;  // [PART-9]
  return !by_themselves && !is_short && layout.hosts() > 1 && layout.most() > 1 &&
         (config.slots == 0 || config.slots >= layout.owners() * kMinSlots);
}

}  // namespace switchml
