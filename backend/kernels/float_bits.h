// Bit patterns of IEEE binary32 that all kernel tables share. Constants only: this header is compiled with the flags of
// several instruction sets, so it must not define a function that the linker could merge across them.
#pragma once

#include <cstdint>

namespace switchml {

inline constexpr int32_t kAbsMask = 0x7fffffff;
inline constexpr int32_t kInfinityBits = 0x7f800000;
inline constexpr int32_t kQuietNanBits = 0x7fc00000;
inline constexpr int kMantissaBits = 23;

}  // namespace switchml
