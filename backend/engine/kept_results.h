// The last result of every slot of a shard, for ranks that have not got it when a switch is lost. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace switchml {

class KeptResults {
 public:
  /// Room for frames of at most `frame_bytes` bytes. 0 slots: nothing is kept.
  KeptResults(int slots, size_t frame_bytes)
      : stride_(frame_bytes), frames_(frame_bytes * static_cast<size_t>(slots)), sizes_(static_cast<size_t>(slots)) {}

  void keep(int index, const uint8_t* frame, size_t size) {
    if (sizes_.empty()) return;
    SWITCHML_ASSERT(size <= stride_);
    std::copy_n(frame, size, frames_.data() + static_cast<size_t>(index) * stride_);
    sizes_[static_cast<size_t>(index)] = static_cast<uint32_t>(size);
  }
  /// The frame; empty: there is none.
  std::vector<uint8_t> last(int index) const {
    if (sizes_.empty()) return {};
    const uint8_t* frame = frames_.data() + static_cast<size_t>(index) * stride_;
    return {frame, frame + sizes_[static_cast<size_t>(index)]};
  }
  size_t memory_bytes() const { return frames_.size(); }

 private:
  size_t stride_;
  std::vector<uint8_t> frames_;
  std::vector<uint32_t> sizes_;
};

}  // namespace switchml
