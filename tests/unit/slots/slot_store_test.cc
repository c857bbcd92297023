#include "slots/slot_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace switchml {
namespace {

constexpr size_t kRoom = SlotStore::kHeadRoom;

TEST(SlotStore, EveryUseHasItsOwnAlignedRoom) {
  for (const size_t payload : {size_t{256}, size_t{1024}, kMaxPayloadBytes}) {
    constexpr int kSlots = 6;
    const auto store = SlotStore::create(kSlots, payload);
    ASSERT_NE(store, nullptr);
    // Fill each use, header included, with its own byte; then nobody may have overwritten another.
    for (uint16_t slot = 0; slot < kSlots; ++slot) {
      for (uint32_t seq = 2; seq < 4; ++seq) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(store->words(slot, seq)) % 64, 0U);
        EXPECT_EQ(store->payload(slot, seq), reinterpret_cast<uint8_t*>(store->words(slot, seq)));
        std::memset(store->payload(slot, seq) - kRoom, slot * 2 + static_cast<int>(seq & 1U), kRoom + payload);
        store->use(slot, seq).pair.seq = seq;
      }
    }
    for (uint16_t slot = 0; slot < kSlots; ++slot) {
      for (uint32_t seq = 2; seq < 4; ++seq) {
        const uint8_t* frame = store->payload(slot, seq) - kRoom;
        for (size_t i = 0; i < kRoom + payload; ++i) {
          ASSERT_EQ(frame[i], slot * 2 + static_cast<int>(seq & 1U));
        }
        EXPECT_EQ(store->use(slot, seq + 2).pair.seq, seq);
      }
    }
  }
}

TEST(SlotStore, KeepsAContributionOfEachWorker) {
  constexpr int kSlots = 3;
  constexpr uint8_t kWorkers = 5;
  constexpr size_t kPayload = 1408;
  const auto store = SlotStore::create(kSlots, kPayload, kWorkers);
  ASSERT_NE(store, nullptr);
  const auto byte = [](uint16_t slot, int place) { return static_cast<uint8_t>(slot * 16 + place); };
  for (uint16_t slot = 0; slot < kSlots; ++slot) {
    for (uint8_t worker = 0; worker < kWorkers; ++worker) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(store->kept(slot, worker)) % 64, 0U);
      std::memset(store->kept(slot, worker), byte(slot, worker), kPayload);
      store->target(slot, worker) = {byte(slot, worker), 7, 8};
    }
    for (uint32_t seq = 2; seq < 4; ++seq)
      std::memset(store->payload(slot, seq) - kRoom, byte(slot, 8), kRoom + 4 * kPayload);  // [NSUM-4]
  }
  for (uint16_t slot = 0; slot < kSlots; ++slot) {
    for (uint8_t worker = 0; worker < kWorkers; ++worker) {
      const uint8_t* kept = store->kept(slot, worker);
      EXPECT_EQ(std::count(kept, kept + kPayload, byte(slot, worker)), static_cast<long>(kPayload));
      EXPECT_EQ(store->target(slot, worker).address, byte(slot, worker));
    }
  }
  EXPECT_EQ(SlotStore::slot_bytes(kPayload, kWorkers),
            SlotStore::slot_bytes(kPayload) + 2 * 3 * kPayload + kWorkers * (kPayload + wire::kTargetBytes))
      << "a result has up to four times the bytes of its terms";
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
}  // namespace switchml
