// Texts that people write, taken as a whole: nothing before or after.
#pragma once

#include <optional>
#include <string>

namespace switchml {

/// A number of at most 18 digits, without sign, from `low` to `high`.
std::optional<long> parse_integer(const std::string& text, long low, long high);

/// The content of a file; empty too if it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace switchml
