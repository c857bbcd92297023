// The exact sum of floats, divided and rounded once: in one whole number that has a bit for every power of two that the
// format has. As slow and plain as formats.h.
#pragma once

#include <cstdint>
#include <vector>

#include "formats.h"

namespace switchml::sim {

/// The sum of some bits' values, divided by `divisor`, rounded to nearest even: docs/protocol-exact.md.
uint64_t exact_mean(const std::vector<uint64_t>& terms, uint32_t divisor, const Format& format);

}  // namespace switchml::sim
