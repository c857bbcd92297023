// The key that both ends of a sealed link know before they speak.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace switchml {

/// 256 secret bits. What shows it to people or logs it is a mistake; to_hex() is for a store or a file.
struct SealKey {
  std::array<uint8_t, 32> bytes{};

  friend bool operator==(const SealKey& a, const SealKey& b) { return a.bytes == b.bytes; }
  friend bool operator!=(const SealKey& a, const SealKey& b) { return !(a == b); }
};

/// From the system's random source. Thread-safe.
SealKey random_seal_key();

/// 64 digits of lower case.
std::string to_hex(const SealKey& key);
/// Of 64 hexadecimal digits, of either case. kInvalidArgument otherwise; its message never shows the text.
Result<SealKey> parse_seal_key(const std::string& text);

/// Whether this processor has instructions for AES and for GCM's multiplication. Without them sealing takes ten times
/// as long.
bool has_aes_instructions();

}  // namespace switchml
