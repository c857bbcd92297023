// Which planted bugs are switched on. Only the copies of sources that generate.py writes ask.
#pragma once

#include <cstdint>

namespace switchml::sim {

inline uint64_t active_mutants = 0;  // Bits by number in mutants.toml.
inline bool mutant_is(int number) { return (active_mutants >> number & 1U) != 0; }

}  // namespace switchml::sim
