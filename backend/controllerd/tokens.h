// The tokens file, and the authorization of callers by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "controller/sessions.h"

namespace switchml {

struct Token {
  std::string secret;
  controller::Owner owner;
};

/// Reads and checks a tokens file. kInvalidArgument: "FILE:LINE: what is wrong". Messages never show a token.
Result<std::vector<Token>> read_tokens(const std::string& path);

/// The owner of the token in an `authorization` header ("Bearer TOKEN"); none: the token is unknown.
std::optional<controller::Owner> owner_of(const std::vector<Token>& tokens, const std::string& header);

}  // namespace switchml
