// Words as they stand in a packet, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace switchml::testing {

inline int32_t word_at(const std::vector<uint8_t>& words, size_t i) {
  return static_cast<int32_t>(static_cast<uint32_t>(words[4 * i]) << 24 |
                              static_cast<uint32_t>(words[4 * i + 1]) << 16 |
                              static_cast<uint32_t>(words[4 * i + 2]) << 8 | words[4 * i + 3]);
}

inline void put_word(std::vector<uint8_t>& words, size_t i, int32_t value) {
  for (int byte = 0; byte < 4; ++byte) {
    words[4 * i + static_cast<size_t>(byte)] = static_cast<uint8_t>(static_cast<uint32_t>(value) >> (24 - 8 * byte));
  }
}

}  // namespace switchml::testing
