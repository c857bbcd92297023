#include "wire/checksum.h"

#include <cstring>

#define XXH_INLINE_ALL  // nothing to link
#include <xxhash.h>

namespace switchml::wire {

namespace {

uint32_t checksum(NativeHeader header, uint64_t session_key, const uint8_t* elements, size_t bytes) {  // [NATIVE-10]
  header.checksum = 0;
  header.flags = static_cast<uint8_t>(header.flags & ~kFlagRepeat);
  uint8_t head[kNativeHeaderBytes];
  write_native_header(header, head);
  const uint64_t seed = XXH3_64bits_withSeed(head, sizeof head, session_key);
  return static_cast<uint32_t>(XXH3_64bits_withSeed(elements, bytes, seed));
}

}  // namespace

void seal_native(NativeHeader header, uint64_t session_key, uint8_t* frame, size_t bytes) {
  header.checksum = checksum(header, session_key, frame + kNativeHeaderBytes, bytes);
  write_native_header(header, frame);
}

bool native_intact(const uint8_t* frame, size_t size, uint64_t session_key) {
  const NativeHeader header = read_native_header(frame);
  return header.checksum == checksum(header, session_key, frame + kNativeHeaderBytes, size - kNativeHeaderBytes);
}

}  // namespace switchml::wire
