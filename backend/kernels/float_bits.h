// Bit patterns of IEEE binary32 that all kernel tables share. This header is compiled with the flags of several
// instruction sets, so functions are static: the linker must not merge them across these.
#pragma once

#include <cstdint>

namespace switchml {

inline constexpr int32_t kAbsMask = 0x7fffffff;
inline constexpr int32_t kInfinityBits = 0x7f800000;
inline constexpr int32_t kQuietNanBits = 0x7fc00000;
inline constexpr int kMantissaBits = 23;

template <typename To, typename From>
static inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace switchml
