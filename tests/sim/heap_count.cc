// operator new and delete that keep the accounts of heap.h. The forms that are not here call these four.
#include <cstdint>
#include <cstdlib>
#include <new>

#include "heap.h"

namespace switchml::sim {
namespace {

// In front of each block.
struct Head {
  uint64_t bytes;
  int account;
};
static_assert(sizeof(Head) == 16);  // which is as strict as memory is aligned without being asked

void* take(size_t bytes, size_t alignment) {
  const size_t rounded = (bytes + 2 * alignment - 1) / alignment * alignment;  // of which `alignment` is in front
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  auto* block = static_cast<uint8_t*>(memory) + alignment;
  new (block - sizeof(Head)) Head{bytes, heap_account};
  heap_accounts[heap_account].bytes += bytes;
  ++heap_accounts[heap_account].blocks;
  return block;
}

void give_back(void* block, size_t alignment) {
  if (block == nullptr) return;
  const auto* head = reinterpret_cast<const Head*>(static_cast<uint8_t*>(block) - sizeof(Head));
  heap_accounts[head->account].bytes -= head->bytes;
  --heap_accounts[head->account].blocks;
  std::free(static_cast<uint8_t*>(block) - alignment);
}

size_t at_least_head(std::align_val_t alignment) {
  const auto asked = static_cast<size_t>(alignment);
  return asked < sizeof(Head) ? sizeof(Head) : asked;
}

}  // namespace
}  // namespace switchml::sim

void* operator new(size_t bytes) { return switchml::sim::take(bytes, sizeof(switchml::sim::Head)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return switchml::sim::take(bytes, switchml::sim::at_least_head(alignment));
}
void operator delete(void* block) noexcept { switchml::sim::give_back(block, sizeof(switchml::sim::Head)); }
void operator delete(void* block, size_t) noexcept { switchml::sim::give_back(block, sizeof(switchml::sim::Head)); }
void operator delete(void* block, std::align_val_t alignment) noexcept {
  switchml::sim::give_back(block, switchml::sim::at_least_head(alignment));
}
void operator delete(void* block, size_t, std::align_val_t alignment) noexcept {
  switchml::sim::give_back(block, switchml::sim::at_least_head(alignment));
}
