#include "shm/host_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace switchml::shm {

HostMap::HostMap(std::vector<std::vector<int>> ranks, int host) : ranks_(std::move(ranks)), host_(host) {
  SWITCHML_ASSERT(host >= 0 && host < hosts());
  size_t all = 0;
  for (const std::vector<int>& here : ranks_) {
    most_ = std::max(most_, here.size());
    all += here.size();
  }
  pieces_.resize(all);
  for (size_t one = 0; one < ranks_.size(); ++one) {
    for (size_t place = 0; place < ranks_[one].size(); ++place) {
      pieces_.at(static_cast<size_t>(ranks_[one][place])) = one * most_ + place;
    }
  }
}

HostMap HostMap::on_one_host(int ranks) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {{std::move(all)}, 0};
}

}  // namespace switchml::shm
