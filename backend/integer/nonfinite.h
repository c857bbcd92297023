// Sums with a NaN or an infinity among their terms. Integers cannot carry them: the classes of each element's terms are
// counted (Kernels::classify) and the result is written over afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml {

/// Class of a sum that is not finite.
enum class Nonfinite : uint8_t { kNone = 0, kNan = 1, kPosInf = 2, kNegInf = 3 };

/// The counts of several terms, as those of one worker: once each class that is among them. [CALL-9]
uint32_t counted_once(uint32_t counts);
/// The class of a sum of terms with these counts.
Nonfinite nonfinite_class(uint32_t counts);

/// Writes the values of n classes (a Nonfinite each) over `out`, except for kNone. Precondition: is_floating(type).
void write_nonfinite(ElementType type, void* out, const uint8_t* classes, size_t n);

}  // namespace switchml
