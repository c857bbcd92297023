// Reading YAML that people write: every error is a YAML::Exception at the line of the mistake, with a message that
// names the thing, its value and what is allowed. load_yaml() turns it into "FILE:LINE: message".
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace switchml {

/// Reads a file and passes it to `use`. kInvalidArgument: the file cannot be read, or is wrong.
Status load_yaml(const std::string& path, const std::function<void(const YAML::Node&)>& use);

namespace yaml {

[[noreturn]] void fail(const YAML::Node& where, const std::string& message);
/// Checks that the mapping has no other keys, and each once.
void check_keys(const YAML::Node& map, const std::string& what, const std::vector<std::string>& allowed);
void check_list(const YAML::Node& list, const std::string& what);
/// The value of a key that must be there.
YAML::Node required(const YAML::Node& map, const std::string& what, const std::string& key);
std::string text(const YAML::Node& node, const std::string& what);
uint64_t number(const YAML::Node& node, const std::string& what, uint64_t low, uint64_t high);
bool boolean(const YAML::Node& node, const std::string& what);
/// "02:00:00:00:00:01", in lower case: one host's, so neither a group's nor all zeros.
std::string mac(const YAML::Node& node, const std::string& what);
/// "100G", "2.5G".
std::string speed(const YAML::Node& node);

}  // namespace yaml
}  // namespace switchml
