#include "base/siphash.h"

#include <cstring>

namespace switchml {

namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "message words are read as little-endian");

uint64_t rotate_left(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

struct SipState {
  uint64_t v0;
  uint64_t v1;
  uint64_t v2;
  uint64_t v3;

  void round() {
    v0 += v1;
    v1 = rotate_left(v1, 13) ^ v0;
    v0 = rotate_left(v0, 32);
    v2 += v3;
    v3 = rotate_left(v3, 16) ^ v2;
    v0 += v3;
    v3 = rotate_left(v3, 21) ^ v0;
    v2 += v1;
    v1 = rotate_left(v1, 17) ^ v2;
    v2 = rotate_left(v2, 32);
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t siphash24(const SipKey& key, const void* data, size_t size) {
  // The initial state is the ASCII text "somepseudorandomlygeneratedbytes" under the key.
  SipState state{key.low ^ 0x736f6d6570736575U, key.high ^ 0x646f72616e646f6dU, key.low ^ 0x6c7967656e657261U,
                 key.high ^ 0x7465646279746573U};
  const auto* bytes = static_cast<const uint8_t*>(data);
  const size_t tail = size % 8;
  for (const uint8_t* end = bytes + (size - tail); bytes != end; bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    state.absorb(word);
  }
  // The last word carries the length modulo 256 in its top byte.
  uint64_t last = static_cast<uint64_t>(size) << 56;
  for (size_t i = 0; i < tail; ++i) last |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  state.absorb(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace switchml
