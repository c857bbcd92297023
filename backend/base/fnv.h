// FNV-1a, 64 bits: tells different bytes apart, but is no protection against deliberate collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace switchml {

/// The hash of no bytes.
inline constexpr uint64_t kFnv1aStart = 0xcbf29ce484222325U;

/// The hash of a string.
constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = kFnv1aStart) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

/// The hash of `size` bytes at `data` (which may be null if there are none). Passing the hash of the bytes before
/// continues it: the hash of "ab" is fnv1a("b", 1, fnv1a("a", 1)).
inline uint64_t fnv1a(const void* data, size_t size, uint64_t hash = kFnv1aStart) {  // [WIT-9]
  return fnv1a(std::string_view(static_cast<const char*>(data), size), hash);
}

}  // namespace switchml
