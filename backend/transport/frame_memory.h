// Zeroed, cache-line aligned memory that lives as long as its owner: what Transport::allocate() gives out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace switchml {

class FrameMemory {
 public:
  static constexpr size_t kAlignment = 64;

  /// Never null; throws std::bad_alloc.
  uint8_t* allocate(size_t bytes) {
    const size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    Block block(static_cast<uint8_t*>(::operator new (rounded, std::align_val_t{kAlignment})));
    std::memset(block.get(), 0, rounded);
    blocks_.push_back(std::move(block));
    return blocks_.back().get();
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  using Block = std::unique_ptr<uint8_t, Free>;
  std::vector<Block> blocks_;
};

}  // namespace switchml
