// How two ends that know the same SealKey agree on the keys of a channel: a greeting, an answer, and an exchange of
// ephemeral keys (X25519) between them. What was sealed stays secret when the SealKey becomes known later.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "seal/aead.h"
#include "seal/channel.h"
#include "seal/derive.h"
#include "seal/seal_key.h"

struct evp_pkey_st;

namespace switchml::seal {

/// Writes `size` unpredictable bytes to `out`.
using RandomBytes = std::function<void(uint8_t* out, size_t size)>;

inline constexpr size_t kPublicBytes = 32;
inline constexpr size_t kGreetingBytes = kFrontBytes + kPublicBytes + kTagBytes;
/// A greeting or an answer.
using GreetingFrame = std::array<uint8_t, kGreetingBytes>;
using PublicKey = std::array<uint8_t, kPublicBytes>;

/// The secrets of a channel, one for each direction.
struct ChannelKeys {
  AeadKey from_initiator;
  AeadKey from_responder;
};

/// The key's part in greetings. Copyable; what it holds is wiped.
class GreetingKey {
 public:
  explicit GreetingKey(const SealKey& key);
  GreetingKey(const GreetingKey&) = default;
  GreetingKey& operator=(const GreetingKey&) = default;
  ~GreetingKey();

  /// The tag of the frame: its first bytes, and `before` it the greeting that it answers, if it is an answer.
  void sign(GreetingFrame* frame, ByteView before) const;
  bool is_signed(const GreetingFrame& frame, ByteView before) const;
  ByteView key() const { return view(key_.bytes); }

 private:
  SealKey key_;
  Hash signer_;
};

/// The frame as a greeting (`form`), if it has the size and the form of one. Whether it is signed is not looked at.
std::optional<GreetingFrame> greeting_of(const uint8_t* frame, size_t size, Form form);
PublicKey public_key_of(const GreetingFrame& frame);

/// A greeting of this end, until it is answered: it holds the ephemeral key, which is wiped with it.
class Greeting {
 public:
  /// Throws StatusError where OpenSSL has no X25519.
  Greeting(const GreetingKey& key, uint8_t channel, const RandomBytes& random);

  const GreetingFrame& frame() const { return frame_; }
  uint8_t channel() const { return channel_; }
  /// The channel's keys, if the frame is the answer to this greeting by an end that knows the key.
  std::optional<ChannelKeys> accept(const GreetingKey& key, const uint8_t* frame, size_t size) const;

 private:
  uint8_t channel_;
  std::unique_ptr<evp_pkey_st, void (*)(evp_pkey_st*)> ephemeral_;  // OpenSSL's type of a key
  GreetingFrame frame_;
};

struct Answer {
  GreetingFrame frame;
  ChannelKeys keys;
};
/// The answer to a greeting. Nothing: it comes from an end that does not know the key.
std::optional<Answer> answer_greeting(const GreetingKey& key, const GreetingFrame& greeting, const RandomBytes& random);

}  // namespace switchml::seal
