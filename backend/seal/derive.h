// HMAC-SHA256 and HKDF-SHA256 (RFC 2104, RFC 5869).
#pragma once

#include <array>
#include <initializer_list>

#include "seal/aead.h"

namespace switchml::seal {

inline constexpr size_t kHashBytes = 32;
using Hash = std::array<uint8_t, kHashBytes>;

/// Call it before anything else of OpenSSL: its exit handler would end what static objects still seal with. False:
/// OpenSSL cannot be used. Thread-safe.
bool prepare_openssl();

/// The code of the parts, one behind the other: up to 256 bytes together. Throws StatusError where OpenSSL refuses.
Hash hmac_sha256(ByteView key, std::initializer_list<ByteView> parts);

/// Writes `size` bytes, up to 255 times 32. `info`: up to 128 bytes.
void hkdf_sha256(ByteView salt, ByteView secret, ByteView info, uint8_t* out, size_t size);

/// The bytes of a string literal, without its end.
template <size_t N>
ByteView text_view(const char (&text)[N]) {
  return {reinterpret_cast<const uint8_t*>(text), N - 1};
}
template <size_t N>
ByteView view(const std::array<uint8_t, N>& bytes) {
  return {bytes.data(), N};
}

/// Overwrites a secret, whatever the compiler thinks of it.
void wipe(void* secret, size_t size);

}  // namespace switchml::seal
