#include "seal/greeting.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

namespace switchml::seal {

namespace {

using Secret = std::array<uint8_t, 32>;

struct FreeKeyContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
// Not a type of this file: a struct of the header's class has one.
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

[[noreturn]] void refuse() { throw StatusError({Code::kUnsupported, "OpenSSL gives no X25519"}); }

PrivateKey make_private_key(const RandomBytes& random) {
  Secret bytes;
  random(bytes.data(), bytes.size());
  PrivateKey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes.data(), bytes.size()), EVP_PKEY_free);
  wipe(bytes.data(), bytes.size());
  if (key == nullptr) refuse();
  return key;
}

PublicKey public_half(const EVP_PKEY* key) {
  PublicKey bytes;
  size_t size = bytes.size();
  if (EVP_PKEY_get_raw_public_key(key, bytes.data(), &size) != 1 || size != bytes.size()) refuse();
  return bytes;
}

/// False: the other's key is one that makes no secret.
bool exchange(EVP_PKEY* own, const PublicKey& its, Secret* secret) {
  const PrivateKey peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, its.data(), its.size()), EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY_CTX, FreeKeyContext> context(EVP_PKEY_CTX_new(own, nullptr));
  if (peer == nullptr || context == nullptr) refuse();
  size_t size = secret->size();
  return EVP_PKEY_derive_init(context.get()) == 1 && EVP_PKEY_derive_set_peer(context.get(), peer.get()) == 1 &&
         EVP_PKEY_derive(context.get(), secret->data(), &size) == 1 && size == secret->size();
}

// [SEAL-10]
ChannelKeys derive(const GreetingKey& key, Secret* secret, const PublicKey& initiator, const PublicKey& responder) {
  constexpr size_t kEach = 32;
  std::array<uint8_t, 2 * kEach> both;
  std::array<uint8_t, 16 + 2 * kPublicBytes> info;
  const ByteView label = text_view("switchml channel");
  uint8_t* const end = std::copy_n(label.data, label.size, info.data());
  std::copy(responder.begin(), responder.end(), std::copy(initiator.begin(), initiator.end(), end));
  hkdf_sha256(key.key(), view(*secret), view(info), both.data(), both.size());
  ChannelKeys keys;
  std::copy_n(both.data(), kEach, keys.from_initiator.bytes.data());
  std::copy_n(both.data() + kEach, kEach, keys.from_responder.bytes.data());
  wipe(secret->data(), secret->size());
  wipe(both.data(), both.size());
  return keys;
}

/// A frame of this form, not signed yet.
GreetingFrame make_frame(uint8_t channel, Form form, const PublicKey& its) {
  GreetingFrame frame{};
  write_front({channel, form, 0}, frame.data());
  std::copy(its.begin(), its.end(), frame.begin() + kFrontBytes);
  return frame;
}

}  // namespace

GreetingKey::GreetingKey(const SealKey& key) : key_(key) {
  hkdf_sha256({}, view(key.bytes), text_view("switchml greeting"), signer_.data(), signer_.size());
}

GreetingKey::~GreetingKey() {
  wipe(key_.bytes.data(), key_.bytes.size());
  wipe(signer_.data(), signer_.size());
}

void GreetingKey::sign(GreetingFrame* frame, ByteView before) const {  // [SEAL-8, SEAL-9]
  const size_t covered = frame->size() - kTagBytes;
  const Hash hash = hmac_sha256(view(signer_), {before, {frame->data(), covered}});
  std::copy_n(hash.data(), kTagBytes, frame->data() + covered);
}

bool GreetingKey::is_signed(const GreetingFrame& frame, ByteView before) const {
  GreetingFrame right = frame;
  sign(&right, before);
  return CRYPTO_memcmp(right.data(), frame.data(), frame.size()) == 0;
}

std::optional<GreetingFrame> greeting_of(const uint8_t* frame, size_t size, Form form) {
  if (size != kGreetingBytes || !is_sealed(frame, size)) return std::nullopt;
  const Front front = read_front(frame);
  if (front.form != form || front.counter != 0) return std::nullopt;
  GreetingFrame greeting;
  std::copy_n(frame, size, greeting.data());
  return greeting;
}

PublicKey public_key_of(const GreetingFrame& frame) {
  PublicKey key;
  std::copy_n(frame.data() + kFrontBytes, key.size(), key.data());
  return key;
}

Greeting::Greeting(const GreetingKey& key, uint8_t channel, const RandomBytes& random)
    : channel_(channel),
      ephemeral_(make_private_key(random).release(), EVP_PKEY_free),
      frame_(make_frame(channel, Form::kGreeting, public_half(ephemeral_.get()))) {
  key.sign(&frame_, {});
}

std::optional<ChannelKeys> Greeting::accept(const GreetingKey& key, const uint8_t* frame, size_t size) const {
  const auto answer = greeting_of(frame, size, Form::kAnswer);
  if (!answer || read_front(frame).channel != channel_ || !key.is_signed(*answer, view(frame_))) return std::nullopt;
  Secret secret;
  if (!exchange(ephemeral_.get(), public_key_of(*answer), &secret)) return std::nullopt;
  return derive(key, &secret, public_key_of(frame_), public_key_of(*answer));
}

std::optional<Answer> answer_greeting(const GreetingKey& key, const GreetingFrame& greeting,
                                      const RandomBytes& random) {
  // First: what does not know the key costs no more than this.
  if (!key.is_signed(greeting, {})) return std::nullopt;  // [SEAL-12]
  const PrivateKey own = make_private_key(random);
  const PublicKey shown = public_half(own.get());
  Secret secret;
  if (!exchange(own.get(), public_key_of(greeting), &secret)) return std::nullopt;
  Answer answer{make_frame(read_front(greeting.data()).channel, Form::kAnswer, shown), {}};
  key.sign(&answer.frame, view(greeting));
  answer.keys = derive(key, &secret, public_key_of(greeting), shown);
  return answer;
}

}  // namespace switchml::seal
