// Which planted bugs are switched on. Only the copies of sources that generate.py writes ask.
#pragma once

#include <bitset>
#include <cstddef>

namespace switchml::sim {

inline constexpr size_t kMostMutants = 128;
using Mutants = std::bitset<kMostMutants>;  // By number in mutants.toml.

inline Mutants active_mutants;
inline bool mutant_is(int number) { return active_mutants[static_cast<size_t>(number)]; }

}  // namespace switchml::sim
