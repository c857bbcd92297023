#include "wire/slot_partition.h"

#include <gtest/gtest.h>

#include <vector>

namespace switchml::wire {
namespace {

TEST(SlotPartition, OnePartitionHasAll) {
  for (int slot = 0; slot < 4096; slot += 7) EXPECT_EQ(slot_partition(255, static_cast<uint16_t>(slot), 1), 0);
}

TEST(SlotPartition, NeighboursStayTogetherAndEveryPartitionHasItsShare) {
  for (const int partitions : {2, 3, 8, 64}) {
    for (const uint8_t job : {1, 2, 255}) {
      std::vector<int> slots(static_cast<size_t>(partitions));
      for (int slot = 0; slot < 8 * partitions; ++slot) {
        const int partition = slot_partition(job, static_cast<uint16_t>(slot), partitions);
        ASSERT_GE(partition, 0);
        ASSERT_LT(partition, partitions);
        EXPECT_EQ(partition, slot_partition(job, static_cast<uint16_t>(slot / 8 * 8), partitions));
        ++slots[static_cast<size_t>(partition)];
      }
      EXPECT_EQ(slots, std::vector<int>(static_cast<size_t>(partitions), 8));
    }
  }
}

TEST(SlotPartition, JobsBeginAtDifferentPartitions) {
  for (uint8_t job = 1; job < 8; ++job) EXPECT_NE(slot_partition(job, 0, 8), slot_partition(job + 1, 0, 8));
}

}  // namespace
}  // namespace switchml::wire
