#include "base/parse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
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

std::optional<double> parse_real(const std::string& text, double low, double high) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value) || value < low || value > high) return std::nullopt;
  return value;
}

bool is_host_port(const std::string& text, long least_port) {
  const size_t colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 &&
         parse_integer(text.substr(colon + 1), least_port, 65535).has_value();
}

bool is_address(const std::string& text) {
  const bool bracketed = !text.empty() && text[0] == '[';
  const size_t end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == std::string::npos || end == (bracketed ? 1 : 0)) return false;
  const std::string rest = text.substr(bracketed ? end + 1 : end);
  if (text.find_first_of(" \t\n/*,") != std::string::npos) return false;
  return rest.empty() || (rest[0] == ':' && parse_integer(rest.substr(1), 1, 65535).has_value());
}

std::string quoted(const std::string& text) {
  constexpr size_t kMost = 200;
  std::string result = "\"";
  for (const char c : text.substr(0, kMost)) {
    char code[5];
    const bool shown = c >= ' ' && c <= '~';
    if (!shown) std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
    result += shown ? std::string(1, c) : code;
  }
  return result + (text.size() > kMost ? "...\" (" + std::to_string(text.size()) + " bytes)" : "\"");
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace switchml
