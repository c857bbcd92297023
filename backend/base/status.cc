#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace switchml {

const char* to_string(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kUnsupported: return "unsupported";
    case Code::kTimeout: return "timeout";
    case Code::kUnavailable: return "unavailable";
    case Code::kMismatch: return "mismatch";
    case Code::kAborted: return "aborted";
    case Code::kInternal: return "internal error";
  }
  return "unknown code";
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(switchml::to_string(code_)) + ": " + message_;
}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "switchml: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace switchml
