#include "slots/slot_store.h"

#include <new>

namespace switchml {

namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

size_t SlotStore::slot_bytes(size_t payload_bytes, size_t kept) {
  return slot_stride(payload_bytes, kept) + 2 * sizeof(SlotUse) + kept * sizeof(wire::Target);
}

SlotStore::SlotStore(std::unique_ptr<SlotUse[]> uses, std::unique_ptr<wire::Target[]> targets, uint8_t* memory,
                     size_t payload_bytes, size_t kept)
    : uses_(std::move(uses)),
      targets_(std::move(targets)),
      memory_(memory),
      payload_bytes_(payload_bytes),
      kept_(kept),
      stride_(version_stride(payload_bytes, kept)),
      slot_stride_(slot_stride(payload_bytes, kept)) {}

std::unique_ptr<SlotStore> SlotStore::create(int slots, size_t payload_bytes, size_t kept) {
  const auto count = static_cast<size_t>(slots);
  std::unique_ptr<SlotUse[]> uses(new (std::nothrow) SlotUse[2 * count]);
  std::unique_ptr<wire::Target[]> targets(new (std::nothrow) wire::Target[count * kept]);
  if (!uses || !targets) return nullptr;
  // Not cleared: a version's bytes are written by its first contributor before anything reads them.
  void* memory = ::operator new(count* slot_stride(payload_bytes, kept), kAlignment, std::nothrow);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<SlotStore>(
      new SlotStore(std::move(uses), std::move(targets), static_cast<uint8_t*>(memory), payload_bytes, kept));
}

SlotStore::~SlotStore() { ::operator delete(memory_, kAlignment); }

}  // namespace switchml
