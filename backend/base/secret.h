// Secrets: tokens that one side shows and the other side knows.
#pragma once

#include <string>

#include "base/status.h"

namespace switchml {

/// Whether a setting's value is a secret, which no text shows.
inline bool is_secret(const std::string& setting) { return setting == "controller_token"; }

/// Whether `shown` is the secret, in a time that depends on the length of `shown` alone: it does not tell how much of
/// a guess is right.
inline bool same_secret(const std::string& secret, const std::string& shown) {
  unsigned difference = secret.size() == shown.size() ? 0 : 1;
  for (size_t i = 0; i < shown.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(expected ^ shown[i]);
  }
  return difference == 0;
}

/// Whether the text can be sent in a header, as secrets are: printable ASCII without spaces, at least one character.
inline bool printable_secret(const std::string& text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return !text.empty();
}

/// The first word of a file. kInvalidArgument, with a message that begins with `what`: it cannot be read or has none,
/// or the word is not printable.
Result<std::string> read_secret(const std::string& path, const std::string& what);

/// The same of a file that others may not read, as ssh asks of its keys. kInvalidArgument, which names the mode: every
/// user may read or write it, or it is this user's own and a group may.
Result<std::string> read_private_secret(const std::string& path, const std::string& what);

}  // namespace switchml
