// The file with the key of a switch, which the switch and its workers read alike.
#pragma once

#include <string>

#include "base/status.h"
#include "seal/seal_key.h"

namespace switchml {

/// The key in a file that only its owner reads (read_private_secret()). kInvalidArgument, with a message that begins
/// with `setting` and names the file, and shows no key: also not where `path` is one by mistake.
Result<SealKey> read_key_file(const std::string& setting, const std::string& path);

}  // namespace switchml
