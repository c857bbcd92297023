#include "wire/checksum.h"

#include <cstring>

#define XXH_INLINE_ALL  // Nothing to link.
#include <xxhash.h>

#include "wire/packet.h"

namespace switchml::wire {

namespace {

// [EXACT-10]
uint32_t checksum(ExactHeader header, ChecksumRule rule, const uint8_t* behind, size_t bytes) {
  header.checksum = 0;
  header.flags = static_cast<uint8_t>(header.flags & ~kFlagRepeat);
  uint8_t head[kExactHeaderBytes];
  write_exact_header(header, head);
  const uint64_t seed = XXH3_64bits_withSeed(head, sizeof head, rule.session_key);
  if (!rule.covers_elements) bytes = has_target(header) ? kTargetBytes : 0;  // [RDMA-5, SEAL-19]
  return static_cast<uint32_t>(XXH3_64bits_withSeed(behind, bytes, seed));
}

// [CTL-8]
uint32_t control_checksum(const uint8_t* frame, size_t size) { return static_cast<uint32_t>(XXH3_64bits(frame, size)); }

}  // namespace

void seal_exact(ExactHeader header, ChecksumRule rule, uint8_t* frame, size_t bytes, const uint8_t* elements) {
  const bool elsewhere = elements != nullptr && rule.covers_elements;
  header.checksum = checksum(header, rule, elsewhere ? elements : frame + kExactHeaderBytes, bytes);
  write_exact_header(header, frame);
}

bool exact_intact(const uint8_t* frame, size_t size, ChecksumRule rule) {
  const ExactHeader header = read_exact_header(frame);
  return header.checksum == checksum(header, rule, frame + kExactHeaderBytes, size - kExactHeaderBytes);
}

size_t seal_control(uint8_t* frame, size_t size) {
  write_control_check({control_checksum(frame, size)}, frame + size);
  return size + kControlCheckBytes;
}

bool control_intact(const uint8_t* frame, size_t size) {
  const size_t covered = size - kControlCheckBytes;
  return read_control_check(frame + covered).checksum == control_checksum(frame, covered);
}

}  // namespace switchml::wire
