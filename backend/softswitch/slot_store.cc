#include "softswitch/slot_store.h"

#include <new>

namespace switchml::softswitch {

namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

size_t SlotStore::slot_bytes(size_t payload_bytes) { return 2 * (kHeadRoom + payload_bytes + sizeof(SlotUse)); }

std::unique_ptr<SlotStore> SlotStore::create(int slots, size_t payload_bytes) {
  const size_t count = static_cast<size_t>(slots) * 2;
  const size_t stride = kHeadRoom + payload_bytes;
  std::unique_ptr<SlotUse[]> uses(new (std::nothrow) SlotUse[count]);
  if (!uses) return nullptr;
  // Not cleared: a version's words are written by its first contributor before anything reads them.
  void* memory = ::operator new(count* stride, kAlignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<SlotStore>(new SlotStore(std::move(uses), static_cast<uint8_t*>(memory), stride));
}

SlotStore::~SlotStore() { ::operator delete(memory_, kAlignment); }

}  // namespace switchml::softswitch
