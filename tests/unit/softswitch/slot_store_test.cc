#include "softswitch/slot_store.h"

#include <gtest/gtest.h>

#include <cstring>

namespace switchml::softswitch {
namespace {

TEST(SlotStore, EveryUseHasItsOwnAlignedRoom) {
  for (const size_t payload : {size_t{256}, size_t{1024}, kMaxPayloadBytes}) {
    constexpr int kSlots = 6;
    const auto store = SlotStore::create(kSlots, payload);
    ASSERT_NE(store, nullptr);
    // Fill each use, header included, with its own byte; then nobody may have overwritten another.
    for (uint16_t slot = 0; slot < kSlots; ++slot) {
      for (uint32_t seq = 2; seq < 4; ++seq) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(store->words(slot, seq)) % 64, 0U);
        EXPECT_EQ(store->frame(slot, seq) + wire::kHeaderBytes, reinterpret_cast<uint8_t*>(store->words(slot, seq)));
        std::memset(store->frame(slot, seq), slot * 2 + static_cast<int>(seq & 1U), wire::kHeaderBytes + payload);
        store->use(slot, seq).pair.seq = seq;
      }
    }
    for (uint16_t slot = 0; slot < kSlots; ++slot) {
      for (uint32_t seq = 2; seq < 4; ++seq) {
        const uint8_t* frame = store->frame(slot, seq);
        for (size_t i = 0; i < wire::kHeaderBytes + payload; ++i) {
          ASSERT_EQ(frame[i], slot * 2 + static_cast<int>(seq & 1U));
        }
        EXPECT_EQ(store->use(slot, seq + 2).pair.seq, seq);
      }
    }
  }
}

TEST(SlotStore, SaysWhatASlotTakes) {
  EXPECT_GE(SlotStore::slot_bytes(1024), 2 * (1024 + wire::kHeaderBytes + sizeof(SlotUse)));
  EXPECT_LE(SlotStore::slot_bytes(1024), 2 * (1024 + 128 + sizeof(SlotUse)));
}

TEST(SlotStore, MemoryThatCannotBeHadIsNoCrash) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
  GTEST_SKIP() << "a sanitizer's allocator aborts where the real one returns null";
#endif
  EXPECT_EQ(SlotStore::create(4096, size_t{1} << 50), nullptr);
}

}  // namespace
}  // namespace switchml::softswitch
