#include "softswitch/grant.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "softswitch/slot_store.h"

namespace switchml::softswitch {
namespace {

using wire::ReplyStatus;

GrantLimits wide() { return {size_t{1} << 30, kMaxPayloadBytes, 0}; }

TEST(Grant, PayloadIsBoundedByTheSwitch) {
  GrantLimits limits = wide();
  limits.max_payload_bytes = 3000;
  EXPECT_EQ(grant(ask_for(2, 1, 8, 8192), limits).payload_bytes, 2048U);
  EXPECT_EQ(grant(ask_for(2, 1, 8, 255), limits).status, ReplyStatus::kPayloadUnsupported);
}

TEST(Grant, SlotsArePresetMultiplesOfShardsWithALeastNumber) {
  EXPECT_EQ(grant(ask_for(2, 1, 0, 1024), wide()).slots, 128);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 8192), wide()).slots, 128);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 32768), wide()).slots, 32);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 64512), wide()).slots, 16);
  EXPECT_EQ(grant(ask_for(2, 3, 0, 1024), wide()).slots, 126);
  EXPECT_EQ(grant(ask_for(2, 16, 4), wide()).slots, 64);
  EXPECT_EQ(grant(ask_for(2, 1, 4096), wide()).slots, 4096);
}

TEST(Grant, MemoryBoundsSlotsAndRefusesBelowTheLeast) {
  GrantLimits limits = wide();
  limits.free_slot_memory_bytes = 10 * SlotStore::slot_bytes(1024);
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).slots, 10);
  EXPECT_EQ(grant(ask_for(2, 2, 64), limits).slots, 10);
  EXPECT_EQ(grant(ask_for(2, 3, 64), limits).status, ReplyStatus::kNoSlots);
  limits.free_slot_memory_bytes = 4 * SlotStore::slot_bytes(1024) - 1;
  EXPECT_EQ(grant(ask_for(2, 1, 4), limits).status, ReplyStatus::kNoSlots);
}

TEST(Grant, TheReceiveBufferBoundsButNeverRefuses) {
  GrantLimits limits = wide();
  limits.receive_buffer_bytes = 20 * 2 * 2 * (1024 + wire::kHeaderBytes);  // 2 workers, twice the bytes, 20 slots
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).slots, 20);
  EXPECT_EQ(grant(ask_for(128, 1, 64), limits).slots, kLeastSlotsPerShard);
  EXPECT_EQ(grant(ask_for(2, 16, 64), limits).slots, 16 * kLeastSlotsPerShard);
  limits.receive_buffer_bytes = 1;
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).status, ReplyStatus::kOk);
}

TEST(Grant, ImpossibleRequestsAreRefusedByReason) {
  EXPECT_EQ(grant(ask_for(0), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 0), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 17), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 1, 4097), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(128), wide()).status, ReplyStatus::kOk);
  EXPECT_EQ(grant(ask_for(129), wide()).status, ReplyStatus::kTooManyWorkers);
}

}  // namespace
}  // namespace switchml::softswitch
