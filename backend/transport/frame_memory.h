// Zeroed, cache-line aligned memory that lives as long as its owner: what Transport::allocate() gives out. Untouched
// pages take no memory: it is as large as bursts may be, and most groups send and receive little.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace switchml {

class FrameMemory {
 public:
  static constexpr size_t kAlignment = 64;

  /// Never null; throws std::bad_alloc.
  uint8_t* allocate(size_t bytes) {
    const size_t mapped = bytes + 1;  // zero bytes get an address of their own, too
    void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    blocks_.emplace_back(static_cast<uint8_t*>(data), Unmap{mapped});
    return blocks_.back().get();
  }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* data) const { ::munmap(data, bytes); }
  };
  std::vector<std::unique_ptr<uint8_t, Unmap>> blocks_;
};

}  // namespace switchml
