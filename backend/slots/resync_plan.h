// What ranks that stopped in the middle of their streams owe each other. No rank is more than one use ahead of another
// on a slot (slot_pool.h), so that the last result of each slot is all that one can have and another lack. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace switchml {

/// Which results must go from which rank to which. [MOVE-3]
class ResyncPlan {
 public:
  /// accepted[r][s]: rank r has accepted the result of this use of slot s last; 0: none. Precondition: all of one
  /// length.
  explicit ResyncPlan(const std::vector<std::vector<uint32_t>>& accepted);
  /// False: ranks are more than one use apart, which no run of the protocol leads to.
  bool possible() const { return possible_; }
  /// The slots of which rank `holder` hands out the last result: the lowest rank that has it does.
  const std::vector<int>& gives(int holder) const { return gives_[static_cast<size_t>(holder)]; }
  /// The ranks from which `rank` takes some.
  std::vector<int> takes_from(int rank) const;
  /// The use that the foremost rank has accepted.
  uint32_t last(int slot) const { return last_[static_cast<size_t>(slot)]; }
  /// Whether `rank` lacks the last result of the slot.
  bool lacks(int rank, int slot) const { return lacks_[static_cast<size_t>(rank)][static_cast<size_t>(slot)]; }

 private:
  bool possible_ = true;
  std::vector<uint32_t> last_;
  std::vector<std::vector<int>> gives_;
  std::vector<std::vector<bool>> lacks_;
};

}  // namespace switchml
