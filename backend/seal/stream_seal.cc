#include "seal/stream_seal.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "wire/layout.h"

namespace switchml::seal {

namespace {

constexpr uint8_t kChannel = 0;  // A connection has one.

/// The greeting that a door says in the store, where its half is enough to know it by.
GreetingFrame greeting_at(const StreamDoor& door, const GreetingKey& key) {
  GreetingFrame greeting{};
  write_front({kChannel, Form::kGreeting, 0}, greeting.data());
  std::copy(door.half.begin(), door.half.end(), greeting.begin() + kFrontBytes);
  key.sign(&greeting, {});
  return greeting;
}

}  // namespace

std::string to_text(const StreamDoor& door) { return to_hex(door.key) + to_hex(SealKey{door.half}); }

Result<StreamDoor> parse_stream_door(const std::string& text) {
  const size_t digits = 2 * sizeof(SealKey::bytes);
  const auto key = parse_seal_key(text.substr(0, digits));
  const auto half = parse_seal_key(text.substr(std::min(digits, text.size())));
  if (!key.ok() || !half.ok()) return key.ok() ? half.status() : key.status();
  return StreamDoor{key.value(), half->bytes};
}

StreamDoorOwner::StreamDoorOwner(const SealKey& key, const RandomBytes& random)
    : key_(key), greeting_key_(key), greeting_(greeting_key_, kChannel, random) {}

StreamDoor StreamDoorOwner::door() const { return {key_, public_key_of(greeting_.frame())}; }

std::optional<ChannelKeys> StreamDoorOwner::accept(const uint8_t* answer) const {
  return greeting_.accept(greeting_key_, answer, seal::kGreetingBytes);
}

std::optional<Answer> answer_door(const StreamDoor& door, const RandomBytes& random) {
  const GreetingKey key(door.key);
  return answer_greeting(key, greeting_at(door, key), random);
}

StreamSeal::StreamSeal(const AeadKey& key, AeadUse use, MakeAead make, uint64_t pieces_per_key)
    : use_(use), make_(std::move(make)), pieces_per_key_(pieces_per_key), key_(key), aead_(make_(key_, use_)) {}

// What a key has sealed cannot be read with the next one. [SEAL-33]
void StreamSeal::advance() {
  if (++next_ % pieces_per_key_ != 0) return;
  AeadKey next;
  hkdf_sha256(text_view("switchml stream"), view(key_.bytes), text_view("next"), next.bytes.data(), next.bytes.size());
  key_ = next;
  aead_ = make_(key_, use_);
}

void StreamSeal::seal(ByteView head, ByteView rest, uint8_t* piece) {  // [SEAL-32]
  const size_t bytes = head.size + rest.size;
  SWITCHML_ASSERT(bytes > 0 && bytes <= kMost);
  wire::detail::store<uint32_t>(piece, static_cast<uint32_t>(bytes));
  aead_->seal(next_, {piece, kLengthBytes}, head, rest, piece + kLengthBytes);
  advance();
}

size_t StreamSeal::bytes_of(const uint8_t* piece) {
  const auto bytes = wire::detail::load<uint32_t>(piece);
  return bytes <= kMost ? bytes : 0;
}

bool StreamSeal::open(uint8_t* piece) {  // [SEAL-32]
  if (!aead_->open(next_, {piece, kLengthBytes}, piece + kLengthBytes, bytes_of(piece))) return false;
  advance();
  return true;
}

}  // namespace switchml::seal
