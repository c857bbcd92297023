#include "wire/blocks.h"

namespace switchml::wire {

namespace {

// Both numbers of Blocks, little-endian as the elements are. [ZERO-2]
constexpr size_t kNumbersBytes = 4;

size_t bitmap_bytes(const Blocks& blocks) { return (blocks.count() + 7) / 8; }

Blocks read_numbers(const uint8_t* at) {
  return {static_cast<size_t>(at[0] | at[1] << 8), static_cast<size_t>(at[2] | at[3] << 8)};
}

bool is_valid(const Blocks& blocks) {
  return blocks.first >= 1 && blocks.first <= std::min(blocks.elements, Blocks::kElements);
}

BlockSet read_bitmap(const uint8_t* bitmap, size_t count) {
  BlockSet present;
  for (size_t block = 0; block < count; ++block) {
    if ((bitmap[block / 8] >> (block % 8) & 1U) != 0) present.insert(block);
  }
  return present;
}

}  // namespace

size_t BlockSet::elements(const Blocks& blocks) const {
  size_t total = 0;
  for (size_t block = 0; block < blocks.count(); ++block) {
    if (test(block)) total += blocks.begin(block + 1) - blocks.begin(block);
  }
  return total;
}

size_t trailer_bytes(const Blocks& blocks) { return bitmap_bytes(blocks) + kNumbersBytes; }

size_t write_trailer(const Blocks& blocks, const BlockSet& present, uint8_t* out) {
  const size_t bitmap = bitmap_bytes(blocks);
  std::fill_n(out, bitmap, uint8_t{0});
  for (size_t block = 0; block < blocks.count(); ++block) {
    if (present.test(block)) out[block / 8] = static_cast<uint8_t>(out[block / 8] | 1U << (block % 8));
  }
  uint8_t* const numbers = out + bitmap;
  numbers[0] = static_cast<uint8_t>(blocks.elements);
  numbers[1] = static_cast<uint8_t>(blocks.elements >> 8);
  numbers[2] = static_cast<uint8_t>(blocks.first);
  numbers[3] = static_cast<uint8_t>(blocks.first >> 8);
  return bitmap + kNumbersBytes;
}

PackedPayload packed_before(const uint8_t* end, size_t element_bytes) {
  PackedPayload packed;
  packed.blocks = read_numbers(end - kNumbersBytes);
  const uint8_t* const trailer = end - trailer_bytes(packed.blocks);
  packed.present = read_bitmap(trailer, packed.blocks.count());
  packed.elements = trailer - packed.present.elements(packed.blocks) * element_bytes;
  return packed;
}

std::optional<PackedPayload> read_packed(const uint8_t* payload, size_t bytes, size_t element_bytes) {
  if (bytes < kNumbersBytes) return std::nullopt;
  const Blocks blocks = read_numbers(payload + bytes - kNumbersBytes);
  if (!is_valid(blocks) || blocks.elements * element_bytes > kMaxPayloadBytes) return std::nullopt;
  if (bytes > blocks.elements * element_bytes) return std::nullopt;  // [ZERO-3]
  const size_t trailer = trailer_bytes(blocks);
  if (bytes < trailer) return std::nullopt;
  const size_t unused = bitmap_bytes(blocks) * 8 - blocks.count();
  const uint8_t last = payload[bytes - kNumbersBytes - 1];
  if (unused > 0 && last >> (8 - unused) != 0) return std::nullopt;  // [ZERO-3]
  const BlockSet present = read_bitmap(payload + bytes - trailer, blocks.count());
  if (bytes != present.elements(blocks) * element_bytes + trailer) return std::nullopt;
  return PackedPayload{blocks, present, payload};
}

}  // namespace switchml::wire
