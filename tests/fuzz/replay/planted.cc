// A target with mistakes, one for each first letter: does main.cc notice them?
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  if (bytes[0] == 'c') std::abort();
  if (bytes[0] == 'e') std::_Exit(0);
  while (bytes[0] == 's') pause();
  return 0;
}
