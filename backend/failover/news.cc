#include "failover/news.h"

#include <algorithm>
#include <cstdlib>

namespace switchml {

namespace {

// A word, a number, and to the first a text.
const std::string kLost = "lost ";
const std::string kBack = "back ";
const std::string kEnd = "end";

bool begins_with(const std::string& text, const std::string& word) { return text.compare(0, word.size(), word) == 0; }

int number_behind(const std::string& text, const std::string& word) {
  return static_cast<int>(std::strtoull(text.c_str() + word.size(), nullptr, 10));
}

// The text that follows word and number.
std::string rest_of(const std::string& text, const std::string& word) {
  const size_t blank = text.find(' ', word.size());
  return blank == std::string::npos ? std::string() : text.substr(blank + 1);
}

}  // namespace

std::string News::loss(int moves, const std::string& why) { return kLost + std::to_string(moves) + " " + why; }
std::string News::offer(int attempt) { return kBack + std::to_string(attempt); }
std::string News::end() { return kEnd; }

void News::hear(int rank, const std::string& text) {
  if (text == kEnd) at_the_end_.insert(rank);
  if (begins_with(text, kLost)) losses_.emplace(number_behind(text, kLost), rest_of(text, kLost));
  if (begins_with(text, kBack) && rank == 0) offered_ = std::max(offered_, number_behind(text, kBack));
}

void News::hear_leave(int rank) {
  left_.insert(rank);
  at_the_end_.insert(rank);
}

std::optional<std::string> News::loss_after(int moves) const {
  const auto found = losses_.find(moves);
  return found == losses_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace switchml
