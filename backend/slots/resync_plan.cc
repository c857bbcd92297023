#include "slots/resync_plan.h"

#include <algorithm>

#include "wire/packet.h"

namespace switchml {

namespace {
// Whether a is a later use than b; 0 is before every use.
bool later(uint32_t a, uint32_t b) { return a != 0 && (b == 0 || wire::newer_seq(a, b)); }
}  // namespace

ResyncPlan::ResyncPlan(const std::vector<std::vector<uint32_t>>& accepted)
    : gives_(accepted.size()), lacks_(accepted.size(), std::vector<bool>(accepted[0].size(), false)) {
  for (size_t slot = 0; slot < accepted[0].size(); ++slot) {
    size_t holder = 0;
    for (size_t rank = 1; rank < accepted.size(); ++rank) {
      if (later(accepted[rank][slot], accepted[holder][slot])) holder = rank;
    }
    const uint32_t last = accepted[holder][slot];
    last_.push_back(last);
    bool wanted = false;
    for (size_t rank = 0; rank < accepted.size(); ++rank) {
      if (accepted[rank][slot] == last) continue;
      lacks_[rank][slot] = true;
      wanted = true;
      const uint32_t before = accepted[rank][slot];
      if (before != 0 && wire::next_seq(before) != last) possible_ = false;
    }
    if (wanted) gives_[holder].push_back(static_cast<int>(slot));
  }
}

std::vector<int> ResyncPlan::takes_from(int rank) const {
  std::vector<int> holders;
  for (size_t holder = 0; holder < gives_.size(); ++holder) {
    const auto& slots = gives_[holder];
    if (std::any_of(slots.begin(), slots.end(), [&](int slot) { return lacks(rank, slot); })) {
      holders.push_back(static_cast<int>(holder));
    }
  }
  return holders;
}

}  // namespace switchml
