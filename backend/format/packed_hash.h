// A keyed hash of several fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "base/siphash.h"

namespace switchml {

// First byte of every message that is hashed under the ranks' secret, so that no two uses of it coincide.
inline constexpr uint8_t kTagWithin = 'a';
inline constexpr uint8_t kTagBlock = 'c';
inline constexpr uint8_t kTagPad = 'p';
inline constexpr uint8_t kTagWorker = 'w';

/// Fields one after the other, little-endian, without padding. [WIT-9]
template <size_t kSize>
class PackedHash {
 public:
  template <typename T>
  PackedHash& put(T value) {
    std::memcpy(bytes_ + size_, &value, sizeof(value));
    size_ += sizeof(value);
    return *this;
  }
  uint64_t hash(const SipKey& key) const {
    SWITCHML_ASSERT(size_ == kSize);
    return siphash24(key, bytes_, kSize);
  }

 private:
  uint8_t bytes_[kSize] = {};
  size_t size_ = 0;
};

}  // namespace switchml
