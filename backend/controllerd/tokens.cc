#include "controllerd/tokens.h"

#include "base/limits.h"
#include "base/secret.h"
#include "controllerd/yaml_checks.h"

namespace switchml {

namespace {

constexpr size_t kShortest = 16;
constexpr size_t kLongest = 512;

Token read_token(const YAML::Node& node, const std::vector<Token>& others) {
  yaml::check_keys(node, "a token", {"name", "token", "max_jobs", "max_slots", "plans"});
  Token token;
  const YAML::Node name = yaml::required(node, "a token", "name");
  token.owner.name = yaml::text(name, "name");
  const std::string self = "token \"" + token.owner.name + "\"";
  const YAML::Node secret = yaml::required(node, self, "token");
  token.secret = yaml::text(secret, self + ": token");
  if (token.secret.size() < kShortest || token.secret.size() > kLongest || !printable_secret(token.secret)) {
    yaml::fail(secret, self + ": token of " + std::to_string(token.secret.size()) +
                           " characters: allowed are 16 to 512, printable and without spaces");
  }
  for (const Token& other : others) {
    if (other.owner.name == token.owner.name) yaml::fail(name, "token name \"" + token.owner.name + "\" is used twice");
    if (other.secret == token.secret) yaml::fail(secret, self + ": token is that of \"" + other.owner.name + "\" too");
  }
  if (node["max_jobs"]) token.owner.max_jobs = yaml::number(node["max_jobs"], self + ": max_jobs", 1, kMaxJobs);
  constexpr uint64_t kAllSlots = uint64_t{kMaxJobs} * kMaxSlots;
  if (node["max_slots"]) token.owner.max_slots = yaml::number(node["max_slots"], self + ": max_slots", 1, kAllSlots);
  if (node["plans"]) token.owner.plans = yaml::boolean(node["plans"], self + ": plans");
  return token;
}

}  // namespace

Result<std::vector<Token>> read_tokens(const std::string& path) {
  std::vector<Token> tokens;
  const Status status = load_yaml(path, [&tokens](const YAML::Node& root) {
    yaml::check_keys(root, "the tokens file", {"tokens"});
    const YAML::Node list = yaml::required(root, "the tokens file", "tokens");
    yaml::check_list(list, "tokens");
    if (list.size() == 0) yaml::fail(list, "tokens: there is none; at least one is needed");
    for (const YAML::Node& node : list) tokens.push_back(read_token(node, tokens));
  });
  if (!status.ok()) return status;
  return tokens;
}

std::optional<controller::Owner> owner_of(const std::vector<Token>& tokens, const std::string& header) {
  const std::string prefix = "Bearer ";
  if (header.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  const std::string shown = header.substr(prefix.size());
  std::optional<controller::Owner> owner;
  for (const Token& token : tokens) {  // All of them, so that the time does not tell which.
    if (same_secret(token.secret, shown)) owner = token.owner;
  }
  return owner;
}

}  // namespace switchml
