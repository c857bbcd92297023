#include "transport/frame_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace switchml {
namespace {

TEST(FrameMemory, IsZeroedAlignedAndApart) {
  FrameMemory memory;
  std::vector<std::pair<uint8_t*, size_t>> blocks;
  for (const size_t bytes : {1U, 63U, 64U, 65U, 4096U, 100000U, 0U, 7U}) {
    uint8_t* block = memory.allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % FrameMemory::kAlignment, 0U) << bytes;
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(block[i], 0) << bytes << " at " << i;
    std::memset(block, static_cast<int>(blocks.size() + 1), bytes);
    blocks.emplace_back(block, bytes);
  }
  for (size_t b = 0; b < blocks.size(); ++b) {  // later ones have neither moved nor overlapped earlier ones
    for (size_t i = 0; i < blocks[b].second; ++i) ASSERT_EQ(blocks[b].first[i], b + 1) << "block " << b;
  }
}

TEST(FrameMemory, TakesThePagesThatAreTouched) {
  constexpr size_t kPage = 4096;
  FrameMemory memory;
  uint8_t* block = memory.allocate(16 * kPage);
  block[3 * kPage] = 1;
  std::vector<unsigned char> resident(16);
  ASSERT_EQ(::mincore(block, 16 * kPage, resident.data()), 0);
  for (size_t page = 0; page < resident.size(); ++page) EXPECT_EQ(resident[page] & 1, page == 3 ? 1 : 0) << page;
}

TEST(FrameMemory, MovesWithItsOwner) {
  FrameMemory first;
  uint8_t* block = first.allocate(100);
  block[99] = 5;
  const FrameMemory second = std::move(first);
  EXPECT_EQ(block[99], 5);
}

}  // namespace
}  // namespace switchml
