#include "controllerd/yaml_checks.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "base/parse.h"

namespace switchml {

namespace {

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Status load_yaml(const std::string& path, const std::function<void(const YAML::Node&)>& use) {
  std::ifstream file(path);
  std::error_code ignored;
  if (!file) return {Code::kInvalidArgument, path + ": cannot be read (" + std::strerror(errno) + ")"};
  if (std::filesystem::is_directory(path, ignored))
    return {Code::kInvalidArgument, path + ": cannot be read (it is a folder)"};
  try {
    use(YAML::Load(file));
  } catch (const YAML::Exception& error) {
    const int line = std::max(error.mark.line, 0) + 1;
    return {Code::kInvalidArgument, path + ":" + std::to_string(line) + ": " + error.msg};
  }
  return {};
}

namespace yaml {

void fail(const YAML::Node& where, const std::string& message) {
  throw YAML::RepresentationException(where.Mark(), message);
}

void check_keys(const YAML::Node& map, const std::string& what, const std::vector<std::string>& allowed) {
  if (!map.IsMap()) fail(map, what + " must have keys; allowed are " + listed(allowed));
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      fail(entry.first, what + " has no key \"" + key + "\"; allowed are " + listed(allowed));
    }
    if (!seen.insert(key).second) fail(entry.first, what + " has the key \"" + key + "\" twice");
  }
}

void check_list(const YAML::Node& list, const std::string& what) {
  if (!list.IsSequence()) fail(list, what + " must be a list");
}

YAML::Node required(const YAML::Node& map, const std::string& what, const std::string& key) {
  const YAML::Node value = map[key];
  if (!value) fail(map, what + " needs the key \"" + key + "\"");
  return value;
}

std::string text(const YAML::Node& node, const std::string& what) {
  if (!node.IsScalar() || node.Scalar().empty()) fail(node, what + " must be a text that is not empty");
  return node.Scalar();
}

uint64_t number(const YAML::Node& node, const std::string& what, uint64_t low, uint64_t high) {
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  const auto value = parse_integer(word, static_cast<long>(low), static_cast<long>(high));
  if (!value)
    fail(node, what + " \"" + word + "\": allowed are " + std::to_string(low) + " to " + std::to_string(high));
  return static_cast<uint64_t>(*value);
}

std::string mac(const YAML::Node& node, const std::string& what) {
  static const std::regex form("([0-9a-f]{2}:){5}[0-9a-f]{2}");
  const std::string given = node.IsScalar() ? node.Scalar() : "";
  std::string word = given;
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool good = std::regex_match(word, form) && word != "00:00:00:00:00:00" &&
                    std::string("13579bdf").find(word[1]) == std::string::npos;
  if (!good) fail(node, what + " \"" + given + "\": allowed is the MAC address of one host, as in 02:00:00:00:00:01");
  return word;
}

bool boolean(const YAML::Node& node, const std::string& what) {
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  if (word != "true" && word != "false") fail(node, what + " \"" + word + "\": allowed are true and false");
  return word == "true";
}

std::string speed(const YAML::Node& node) {
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  const size_t digits = word.find_first_not_of("0123456789.");
  const bool good = digits != std::string::npos && digits > 0 && digits + 1 == word.size() && word[0] != '.' &&
                    std::string("MGT").find(word[digits]) != std::string::npos;
  if (!good) fail(node, "speed \"" + word + "\": allowed is a number with M, G or T, as in 100G");
  return word;
}

}  // namespace yaml
}  // namespace switchml
