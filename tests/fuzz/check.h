// What holds whatever the input; where it does not, the fuzzer gets its crash.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace switchml::fuzz {

inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

}  // namespace switchml::fuzz
