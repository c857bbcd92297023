// Sums with a NaN or an infinity among their terms. Integers cannot carry them: the classes of each element's terms are
// counted (Kernels::classify) and the result is written over afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml::quant {

/// Class of a sum that is not finite.
enum class Special : uint8_t { kNone = 0, kNan = 1, kPosInf = 2, kNegInf = 3 };

/// What a sum is whose terms have these counts.
Special special_of(uint32_t counts);

/// Writes the class of each of n elements (a Special each) over `out`, where it has one. Precondition:
/// is_floating(type).
void write_specials(ElementType type, void* out, const uint8_t* specials, size_t n);

}  // namespace switchml::quant
