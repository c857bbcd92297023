// Who may ask: the tokens file, and the comparison of what a caller shows with it.
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

/// Whose token an `authorization` header ("Bearer TOKEN") shows; none if it is nobody's.
std::optional<controller::Owner> owner_of(const std::vector<Token>& tokens, const std::string& header);

}  // namespace switchml
