#include "base/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace switchml {

Result<std::string> read_secret(const std::string& path, const std::string& what) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return Status(Code::kInvalidArgument, what + ": cannot be read, or is empty");
  if (printable_secret(word)) return word;
  return Status(Code::kInvalidArgument, what + ": its first word has bytes that are not printable ASCII");
}

// What systemd and Kubernetes mount is another user's, and a group may read it.
Result<std::string> read_private_secret(const std::string& path, const std::string& what) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0) {
    const mode_t forbidden = found.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IRWXO;
    if ((found.st_mode & forbidden) != 0) {
      char mode[8];
      std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(found.st_mode & 07777));
      return Status(Code::kInvalidArgument, what + ": others may read it (mode " + mode + "): chmod 600 " + path);
    }
  }
  return read_secret(path, what);
}

}  // namespace switchml
