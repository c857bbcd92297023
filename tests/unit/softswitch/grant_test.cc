#include "softswitch/grant.h"

#include <gtest/gtest.h>

#include "exact.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {
namespace {

using wire::ReplyStatus;

GrantLimits wide() { return {size_t{1} << 30, kMaxPayloadBytes, 0}; }

Grant grant(const wire::Open& asked, const GrantLimits& limits) { return softswitch::grant(asked, {limits}); }

GrantLimits chip() {
  GrantLimits limits;
  limits.payloads = {256, 1024};
  limits.whole_chunks = true;
  limits.max_members = 64;
  limits.page_slots = 128;
  limits.free_pages = 4;
  return limits;
}

TEST(Grant, PayloadIsBoundedByTheSwitch) {  // [OPEN-4]
  GrantLimits limits = wide();
  limits.max_payload_bytes = 3000;
  EXPECT_EQ(grant(ask_for(2, 1, 8, 8192), limits).payload_bytes, 2048U);
  EXPECT_EQ(grant(ask_for(2, 1, 8, 2047), limits).payload_bytes, 1920U);
  EXPECT_EQ(grant(ask_for(2, 1, 8, 255), limits).status, ReplyStatus::kPayloadUnsupported);
}

TEST(Grant, SlotsArePresetMultiplesOfShardsWithALeastNumber) {  // [OPEN-3, OPEN-4]
  EXPECT_EQ(grant(ask_for(2, 1, 0, 1024), wide()).slots, 128);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 8192), wide()).slots, 128);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 32768), wide()).slots, 32);
  EXPECT_EQ(grant(ask_for(2, 1, 0, 64512), wide()).slots, 16);
  EXPECT_EQ(grant(ask_for(2, 3, 0, 1024), wide()).slots, 126);
  EXPECT_EQ(grant(ask_for(2, 16, 4), wide()).slots, 64);
  EXPECT_EQ(grant(ask_for(2, 1, 4096), wide()).slots, 4096);
}

TEST(Grant, MemoryBoundsSlotsAndRefusesBelowTheLeast) {  // [OPEN-4]
  GrantLimits limits = wide();
  limits.free_slot_memory_bytes = 10 * SlotStore::slot_bytes(1024);
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).slots, 10);
  EXPECT_EQ(grant(ask_for(2, 2, 64), limits).slots, 10);
  EXPECT_EQ(grant(ask_for(2, 3, 64), limits).status, ReplyStatus::kNoSlots);
  limits.free_slot_memory_bytes = 4 * SlotStore::slot_bytes(1024) - 1;
  EXPECT_EQ(grant(ask_for(2, 1, 4), limits).status, ReplyStatus::kNoSlots);
}

TEST(Grant, TheReceiveBufferBoundsButNeverRefuses) {  // [OPEN-6]
  GrantLimits limits = wide();
  limits.receive_buffer_bytes = 20 * 2 * 2 * (1024 + wire::kExactHeaderBytes);  // 2 workers, twice the bytes, 20 slots
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).slots, 20);
  EXPECT_EQ(grant(ask_for(128, 1, 64), limits).slots, kLeastSlotsPerShard);
  EXPECT_EQ(grant(ask_for(2, 16, 64), limits).slots, 16 * kLeastSlotsPerShard);
  limits.receive_buffer_bytes = 1;
  wire::Open over_tcp = ask_for(2, 1, 64);
  over_tcp.flags = wire::kOpenStream;
  EXPECT_EQ(grant(over_tcp, limits).slots, 64) << "no socket queues datagrams";
  over_tcp.slots = kMaxSlots;
  over_tcp.payload = 63 * 1024;
  limits = wide();
  limits.free_slot_memory_bytes = SIZE_MAX;
  const size_t frame = 63 * 1024 + wire::kExactHeaderBytes + 8;
  EXPECT_EQ(static_cast<size_t>(grant(over_tcp, limits).slots), kStreamQueueBytes / frame) << "results of a shard";
  over_tcp.shards = 2;
  EXPECT_EQ(static_cast<size_t>(grant(over_tcp, limits).slots), 2 * (kStreamQueueBytes / frame));
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).status, ReplyStatus::kOk);
}

TEST(Grant, ImpossibleRequestsAreRefusedByReason) {  // [OPEN-3]
  EXPECT_EQ(grant(ask_for(0), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 0), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 17), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(2, 1, 4097), wide()).status, ReplyStatus::kBadRequest);
  EXPECT_EQ(grant(ask_for(128), wide()).status, ReplyStatus::kOk);
  EXPECT_EQ(grant(ask_for(129), wide()).status, ReplyStatus::kTooManyWorkers);
}

TEST(Grant, AChipTakesItsSizesOnly) {
  EXPECT_EQ(grant(ask_for(2, 1, 8, 64512), chip()).payload_bytes, 1024U);
  EXPECT_EQ(grant(ask_for(2, 1, 8, 1408), chip()).payload_bytes, 1024U);
  EXPECT_EQ(grant(ask_for(2, 1, 8, 1000), chip()).payload_bytes, 256U);
  EXPECT_TRUE(grant(ask_for(2, 1, 8, 256), chip()).whole_chunks);
  EXPECT_FALSE(grant(ask_for(2, 1, 8, 256), wide()).whole_chunks);
  GrantLimits large = chip();
  large.payloads = {1024};
  EXPECT_EQ(grant(ask_for(2, 1, 8, 512), large).status, ReplyStatus::kPayloadUnsupported);
  EXPECT_EQ(grant(ask_for(65), chip()).status, ReplyStatus::kTooManyWorkers);
  EXPECT_EQ(grant(ask_for(64), chip()).status, ReplyStatus::kOk);
}

TEST(Grant, PagesBoundSlotsAndShardsHaveWholeOnes) {
  EXPECT_EQ(grant(ask_for(2, 1, 4096), chip()).slots, 512);
  EXPECT_EQ(grant(ask_for(2, 1, 40), chip()).slots, 40) << "one shard may leave a part of its page";
  EXPECT_EQ(grant(ask_for(2, 2, 40), chip()).slots, 256) << "a page each, even if less is asked";
  EXPECT_EQ(grant(ask_for(2, 2, 500), chip()).slots, 256);
  EXPECT_EQ(grant(ask_for(2, 4, 4096), chip()).slots, 512);
  EXPECT_EQ(grant(ask_for(2, 5, 4096), chip()).status, ReplyStatus::kNoSlots) << "five shards, four pages";
  GrantLimits none = chip();
  none.free_pages = 0;
  EXPECT_EQ(grant(ask_for(2), none).status, ReplyStatus::kNoSlots);
  GrantLimits small = chip();
  small.page_slots = 3;
  small.free_pages = 1000;
  EXPECT_EQ(grant(ask_for(2, 2, 4), small).slots, 12) << "at least four slots, so two pages, per shard";
  GrantLimits vast = chip();
  vast.page_slots = 1024;
  EXPECT_EQ(grant(ask_for(2, 8, 4096), vast).status, ReplyStatus::kNoSlots) << "more than a job can number";
}

TEST(Grant, TheLeastOfSeveralSwitchesCounts) {
  GrantLimits other = chip();
  other.payloads = {256, 512};
  other.page_slots = 64;
  other.free_pages = 5;
  EXPECT_EQ(softswitch::grant(ask_for(2, 1, 4096, 8192), {chip(), other}).payload_bytes, 256U);
  EXPECT_EQ(softswitch::grant(ask_for(2, 1, 4096, 8192), {wide(), other}).payload_bytes, 512U);
  EXPECT_EQ(softswitch::grant(ask_for(2, 1, 4096), {chip(), other}).slots, 320);
  EXPECT_EQ(softswitch::grant(ask_for(2, 2, 4096), {chip(), other}).slots, 256) << "whole pages of both";
  EXPECT_TRUE(softswitch::grant(ask_for(2), {wide(), other}).whole_chunks);
  other.payloads = {512};
  const Grant refused = softswitch::grant(ask_for(2, 1, 8, 1024), {wide(), chip(), other});
  EXPECT_EQ(refused.status, ReplyStatus::kPayloadUnsupported);
  EXPECT_EQ(refused.refused_by, 2U) << "with what the first two share it cannot agree";
}

TEST(Grant, OnlyTheMembersOfASwitchCountThere) {
  GrantLimits leaf = chip();
  leaf.members = 2;
  leaf.receive_buffer_bytes = 2 * 2 * 20 * (256 + wire::kExactHeaderBytes);
  EXPECT_EQ(grant(ask_for(100, 1, 64, 256), leaf).slots, 20);
  leaf.members = 65;
  EXPECT_EQ(grant(ask_for(100, 1, 64, 256), leaf).status, ReplyStatus::kTooManyWorkers);
}

TEST(Grant, AQuotaBoundsAndRefuses) {
  GrantLimits limits = wide();
  limits.max_slots = 10;
  EXPECT_EQ(grant(ask_for(2, 1, 64), limits).slots, 10);
  EXPECT_EQ(grant(ask_for(2, 3, 64), limits).status, ReplyStatus::kNoSlots);
}

TEST(Grant, ExactWhereAllSwitchesCan) {  // [EXACT-2]
  GrantLimits limits = wide(), integers = wide();
  limits.exact = true;
  EXPECT_TRUE(grant(ask_exact(ask_for(2)), limits).exact);
  EXPECT_TRUE(softswitch::grant(ask_exact(ask_for(2)), {limits, limits}).exact);
  EXPECT_FALSE(grant(ask_for(2), limits).exact);
  EXPECT_FALSE(grant(ask_exact(ask_for(2)), integers).exact);
  EXPECT_FALSE(softswitch::grant(ask_exact(ask_for(2)), {limits, integers}).exact);
}

}  // namespace
}  // namespace switchml::softswitch
