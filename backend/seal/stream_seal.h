// Seals the bytes of a connection that keeps their order, as TCP does, between a rank that has a door and one that
// comes in there. [SEAL-30] Each end seals pieces of up to kMost bytes: a length, what was sealed, a tag. A piece's
// number is counted and not sent, so that one that was altered, repeated, left out or moved does not open.
//
// A door's greeting is in the group's store, and a connection begins with the answer to it. So a rank that comes in
// seals what it sends without waiting for the other end, which may be busy. A connection that was recorded and is sent
// once more opens as the first one did: its door must take each rank once. [SEAL-31]
//
// No I/O. Each object belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "seal/greeting.h"

namespace switchml::seal {

/// What a rank has to know of a door that it comes in at. Secret.
struct StreamDoor {
  SealKey key;
  PublicKey half{};  // The door's half of the agreement on keys.
};
std::string to_text(const StreamDoor& door);
/// kInvalidArgument, without a word of the text: it is none.
Result<StreamDoor> parse_stream_door(const std::string& text);

/// A door, as its rank holds it. Thread-safe.
class StreamDoorOwner {
 public:
  StreamDoorOwner(const SealKey& key, const RandomBytes& random);

  StreamDoor door() const;
  /// The keys of a connection that begins with these kGreetingBytes. Nothing: its end does not know the door's key.
  std::optional<ChannelKeys> accept(const uint8_t* answer) const;

 private:
  const SealKey key_;
  const GreetingKey greeting_key_;
  const Greeting greeting_;
};

/// What a rank begins a connection to the door with. Nothing: OpenSSL refuses the door's half.
std::optional<Answer> answer_door(const StreamDoor& door, const RandomBytes& random);

/// One direction of a connection, at one of its ends.
class StreamSeal {
 public:
  static constexpr size_t kMost = 64 * 1024 + 64;  // Two take the largest record of messages, with its bytes.
  static constexpr size_t kLengthBytes = 4;
  static constexpr size_t kExtraBytes = kLengthBytes + kTagBytes;
  /// A key seals so many pieces; then the next one is made of it.
  static constexpr uint64_t kPiecesPerKey = uint64_t{1} << 24;

  StreamSeal(const AeadKey& key, AeadUse use, MakeAead make = make_aes_gcm, uint64_t pieces_per_key = kPiecesPerKey);

  /// Seals 1 to kMost bytes, of `head` and then `rest`; writes kExtraBytes more to `piece`, which overlaps neither.
  void seal(ByteView head, ByteView rest, uint8_t* piece);
  /// How many bytes a piece seals that begins with these kLengthBytes. 0: it is none.
  static size_t bytes_of(const uint8_t* piece);
  /// Opens the next piece, of bytes_of() and kExtraBytes: what it seals is behind its length then. False: it is not
  /// what the other end sealed next, and its bytes mean nothing any more.
  bool open(uint8_t* piece);

 private:
  void advance();

  const AeadUse use_;
  const MakeAead make_;
  const uint64_t pieces_per_key_;
  AeadKey key_;
  std::unique_ptr<Aead> aead_;
  uint64_t next_ = 0;  // The next piece's number.
};

}  // namespace switchml::seal
