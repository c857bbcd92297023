// The settings of a worker: lines "NAME=VALUE", as variables or, without the prefix SWITCHML_, as options of a group.
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/payload_size.h"
#include "check.h"

namespace switchml {
namespace {

using fuzz::check;

void check_ranges(const Config& config) {
  check(config.slots == 0 || (config.slots >= 4 && config.slots <= 4096), "slots");
  check(config.shards >= 1 && config.shards <= 16, "shards");
  check(config.rto_min > Duration::zero() && config.rto_min <= config.rto_max, "timeouts");
  check(config.payload_bytes == 0 || is_allowed_payload(config.payload_bytes), "payload");
  check(!describe(config).empty(), "a configuration can be described");
}

}  // namespace
}  // namespace switchml

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  std::istringstream input(std::string(reinterpret_cast<const char*>(bytes), size));
  std::map<std::string, std::string> variables, options;
  std::vector<std::string> names;
  for (std::string line; std::getline(input, line);) {
    const std::string name = line.substr(0, line.find('='));
    const std::string value = name.size() < line.size() ? line.substr(name.size() + 1) : "";
    names.push_back(name);
    (name.rfind("SWITCHML_", 0) == 0 ? variables : options)[name] = value;
    parse_faults(value);
  }
  unknown_variables(names);
  const auto environment = [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  const auto config = load_config(environment, options);
  if (config.ok()) {
    check_ranges(config.value());
  } else {
    fuzz::check(config.status().code() == Code::kInvalidArgument && !config.status().message().empty(),
                "an error says what");
  }
  return 0;
}
