// Assertions of invariants. They stay on in release builds: a wrong sum is worse than a stopped program.
#pragma once

namespace switchml {

/// Prints the condition and its place to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace switchml

#define SWITCHML_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::switchml::assertion_failed(#condition, __FILE__, __LINE__))
