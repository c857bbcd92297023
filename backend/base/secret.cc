#include "base/secret.h"

#include <fstream>

namespace switchml {

Result<std::string> read_secret(const std::string& path, const std::string& what) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return Status(Code::kInvalidArgument, what + ": cannot be read, or is empty");
  if (printable_secret(word)) return word;
  return Status(Code::kInvalidArgument, what + ": its first word has bytes that are not printable ASCII");
}

}  // namespace switchml
