// What each rank says it called, as one sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace switchml {

/// calls[r] is what rank r called; nullopt: it did not say. Ranks with the same call are named together:
/// "ranks 0, 1 called all_reduce(SUM, float32, 100 elements); rank 2 called barrier; rank 3 did not say".
std::string compare_sentence(const std::vector<std::optional<std::string>>& calls);

}  // namespace switchml
