#include "seal/seal_key.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/random.h"

namespace switchml {

namespace {

constexpr const char* kDigits = "0123456789abcdef";

/// -1: it is no hexadecimal digit.
int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

SealKey random_seal_key() {
  SealKey key;
  random_bytes(key.bytes.data(), key.bytes.size());
  return key;
}

std::string to_hex(const SealKey& key) {
  std::string text;
  for (const uint8_t byte : key.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0x0f];
  }
  return text;
}

Result<SealKey> parse_seal_key(const std::string& text) {
  SealKey key;
  const size_t digits = 2 * key.bytes.size();
  if (text.size() != digits) {
    return Status(Code::kInvalidArgument, "a key has " + std::to_string(digits) + " hexadecimal digits, not " +
                                              std::to_string(text.size()) + " characters");
  }
  for (size_t i = 0; i < digits; ++i) {
    const int digit = digit_of(text[i]);
    if (digit < 0) {
      return Status(Code::kInvalidArgument,
                    "character " + std::to_string(i + 1) + " of the key is no hexadecimal digit");
    }
    key.bytes[i / 2] = static_cast<uint8_t>(key.bytes[i / 2] << 4 | digit);
  }
  return key;
}

bool has_aes_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__)
  constexpr unsigned long kAes = 1UL << 3, kPmull = 1UL << 4;  // HWCAP_AES and HWCAP_PMULL of asm/hwcap.h
  return (getauxval(AT_HWCAP) & (kAes | kPmull)) == (kAes | kPmull);
#else
  return false;
#endif
}

}  // namespace switchml
