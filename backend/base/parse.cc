#include "base/parse.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace switchml {

std::optional<long> parse_integer(const std::string& text, long low, long high) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  const long value = std::strtol(text.c_str(), nullptr, 10);
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace switchml
