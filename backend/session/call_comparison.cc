#include "session/call_comparison.h"

#include <algorithm>

namespace switchml {

namespace {

std::string name_ranks(const std::vector<size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

std::string compare_sentence(const std::vector<std::optional<std::string>>& calls) {
  std::vector<std::optional<std::string>> distinct;  // Ordered by the first rank that said it.
  for (const auto& call : calls) {
    if (std::find(distinct.begin(), distinct.end(), call) == distinct.end()) distinct.push_back(call);
  }
  std::string text;
  for (const auto& call : distinct) {
    std::vector<size_t> ranks;
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      if (calls[rank] == call) ranks.push_back(rank);
    }
    text += (text.empty() ? "" : "; ") + name_ranks(ranks) + (call ? " called " + *call : " did not say");
  }
  return text;
}

}  // namespace switchml
