#include "switchd/key_file.h"

#include "base/parse.h"
#include "base/secret.h"

namespace switchml {

Result<SealKey> read_key_file(const std::string& setting, const std::string& path) {
  if (parse_seal_key(path).ok())
    return Status(Code::kInvalidArgument, setting + " is a key: it must be the name of a file with the key");
  const std::string what = setting + "=" + quoted(path);
  const auto text = read_private_secret(path, what);
  if (!text.ok()) return text.status();
  auto key = parse_seal_key(text.value());
  return key.ok() ? key : Status(key.status().code(), what + ": " + key.status().message());
}

}  // namespace switchml
