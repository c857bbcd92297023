#include "base/parse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/limits.h"

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

namespace {
bool is_wildcard(const std::string& host) { return host == "0.0.0.0" || host == "::" || host == "[::]"; }
}  // namespace

bool is_peer(const std::string& text) { return is_host_port(text, 1) && !is_wildcard(text.substr(0, text.rfind(':'))); }

std::string split_address(const std::string& text, HostPort* out) {
  size_t rest = 0;  // Offset of ":PORT".
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == std::string::npos) return "the bracket is not closed";
    out->host = text.substr(1, close - 1);
    rest = close + 1;
    if (rest < text.size() && text[rest] != ':') return "only :PORT may follow the bracket";
  } else {
    rest = std::min(text.find(':'), text.size());
    out->host = text.substr(0, rest);
    if (text.find(':', rest + 1) != std::string::npos) return "an IPv6 address must be in brackets";
  }
  if (out->host.empty()) return "the address is missing";
  if (out->host.find('\0') != std::string::npos) return "the address holds a zero byte";
  out->has_port = rest < text.size();
  if (out->has_port) out->port = text.substr(rest + 1);
  return "";
}

bool is_address(const std::string& text) {
  HostPort parts;
  if (!split_address(text, &parts).empty() || text.find_first_of(" \t\n/*,") != std::string::npos) return false;
  if (is_wildcard(parts.host)) return false;
  return !parts.has_port || parse_integer(parts.port, 1, 65535).has_value();
}

std::optional<std::vector<NamedSwitch>> parse_switches(const std::string& text) {
  std::vector<NamedSwitch> switches;
  std::istringstream items(text + ",");  // so that nothing behind the last comma is an item, too
  for (std::string item; std::getline(items, item, ',');) {
    const size_t star = std::min(item.find('*'), item.size());
    const auto weight = star < item.size() ? parse_integer(item.substr(star + 1), 1, kMaxWeight) : 1;
    if (!weight || !is_address(item.substr(0, star))) return std::nullopt;
    switches.push_back({item.substr(0, star), static_cast<uint32_t>(*weight)});
  }
  return switches;
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

namespace {

std::string escaped(char c) {
  char code[5];
  std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
  return code;
}

// Length of the UTF-8 character, other than ASCII, at the beginning of a text; 0: there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const size_t length = byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2 : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3 : 4;
  if (byte(0) < 0xc2 || byte(0) > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  const unsigned first_two = byte(0) << 8 | byte(1);
  const bool too_long = (first_two >= 0xe080 && first_two < 0xe0a0) || (first_two >= 0xf080 && first_two < 0xf090);
  const bool surrogate = first_two >= 0xeda0 && first_two < 0xee00;
  return too_long || surrogate || first_two >= 0xf490 ? 0 : length;
}

}  // namespace

std::string quoted(const std::string& text) {
  constexpr size_t kMost = 2048;  // 128 switches are not cut off
  std::string result = "\"";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? std::string(1, c) : escaped(c);
  return result + (text.size() > kMost ? "...\" (" + std::to_string(text.size()) + " bytes)" : "\"");
}

std::string readable(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool plain = (text[i] >= ' ' && text[i] <= '~') || text[i] == '\n' || text[i] == '\t';
    const size_t length = plain ? 1 : utf8_length(std::string_view(text).substr(i));
    result += length > 0 ? text.substr(i, length) : escaped(text[i]);
    i += std::max<size_t>(length, 1);
  }
  return result;
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace switchml
