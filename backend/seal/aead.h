// Authenticated encryption with associated data: what seals a frame, behind an interface, so that a test can watch
// which counters a key is used with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace switchml::seal {

inline constexpr size_t kTagBytes = 16;

/// Bytes that are borrowed.
struct ByteView {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

/// A secret of a channel's direction. Its memory is wiped.
struct AeadKey {
  std::array<uint8_t, 32> bytes{};

  AeadKey() = default;
  AeadKey(const AeadKey&) = default;
  AeadKey& operator=(const AeadKey&) = default;
  ~AeadKey();
};

enum class AeadUse { kSeal, kOpen };

/// A key, and one use of it. Not thread-safe.
class Aead {
 public:
  virtual ~Aead() = default;

  /// Writes the ciphertext of `head` and then `rest` to `out`, and the tag behind it. The tag also covers `associated`.
  /// `counter` must never be given twice under one key. `out` overlaps nothing.
  virtual void seal(uint64_t counter, ByteView associated, ByteView head, ByteView rest, uint8_t* out) = 0;
  /// Replaces `size` bytes of ciphertext by what was sealed. False: the tag behind them does not hold, and the bytes
  /// mean nothing any more.
  virtual bool open(uint64_t counter, ByteView associated, uint8_t* bytes, size_t size) = 0;
};

using MakeAead = std::function<std::unique_ptr<Aead>(const AeadKey& key, AeadUse use)>;

/// AES-256-GCM by OpenSSL. Its nonce is 4 zero bytes and the counter, 64 bits, big-endian. [SEAL-4] Throws StatusError
/// where OpenSSL has no such cipher.
std::unique_ptr<Aead> make_aes_gcm(const AeadKey& key, AeadUse use);

}  // namespace switchml::seal
