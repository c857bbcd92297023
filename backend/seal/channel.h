// The two directions of a channel: frames that leave under a counter that never repeats, and frames that are opened
// once each, in any order that a network makes of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "seal/aead.h"
#include "wire/layout.h"

namespace switchml::seal {

inline constexpr size_t kFrontBytes = wire::kSealFrontBytes;
/// What sealing adds to a frame.
inline constexpr size_t kSealBytes = kFrontBytes + kTagBytes;
static_assert(kSealBytes == 24);

/// The lower half of a sealed frame's second byte.
enum class Form : uint8_t {
  kFromInitiator = 0,
  kGreeting = 1,
  kAnswer = 2,
  kFromResponder = 3,
};

/// The front of a sealed frame. `counter` is 0 in a greeting and an answer.
struct Front {
  uint8_t channel = 0;  // 0 to 15
  Form form = Form::kFromInitiator;
  uint64_t counter = 0;  // below 2^48
};
/// Whether the frame, of any size, is one of kind "sealed" and this version, and has a whole front. Its form may be
/// none.
bool is_sealed(const uint8_t* frame, size_t size);
/// Precondition: is_sealed().
Front read_front(const uint8_t* frame);
void write_front(const Front& front, uint8_t* out);

/// The last counter that a sender uses.
inline constexpr uint64_t kLastCounter = (uint64_t{1} << 48) - 1;

/// Seals what one end sends. Not thread-safe.
class SealedSender {
 public:
  /// `form`: of data. The first frame has counter `first`; others than 1 are for tests.
  SealedSender(std::unique_ptr<Aead> aead, uint8_t channel, Form form, uint64_t first = 1)
      : aead_(std::move(aead)), front_{channel, form, first} {}

  /// Writes kSealBytes more than head and rest have to `out`, which overlaps neither. False: the counter has come to
  /// its end, and nothing is written. [SEAL-5]
  bool seal(ByteView head, ByteView rest, uint8_t* out);
  /// Frames sealed, as the counter tells.
  uint64_t sealed() const { return front_.counter - 1; }

 private:
  std::unique_ptr<Aead> aead_;
  Front front_;  // of the next frame
};

/// Which counters have come: of all, and of the last kWindow each (RFC 6479). A counter before the window counts as one
/// that has come.
class ReplayWindow {
 public:
  static constexpr uint64_t kWindow = 4096;

  bool has(uint64_t counter) const {
    if (counter > newest_) return false;
    if (newest_ - counter >= kWindow) return true;
    return (words_[word_of(counter)] >> counter % 64 & 1) != 0;
  }
  /// Notes a counter that was authenticated.
  void note(uint64_t counter);

 private:
  // One word more than the window has: the newest one is part filled.
  static constexpr uint64_t kWords = 128;
  static_assert((kWords - 1) * 64 >= kWindow && (kWords & (kWords - 1)) == 0);
  static size_t word_of(uint64_t counter) { return counter / 64 % kWords; }

  uint64_t newest_ = 0;  // 0 counts as one that has come: no sender uses it
  std::array<uint64_t, kWords> words_{1};
};

/// Opens what the other end sent. Not thread-safe.
class SealedReceiver {
 public:
  enum class Verdict {
    kOpened,
    kForged,    // it was changed, or not sealed by the other end under this key
    kReplayed,  // it has been opened before, or so many newer ones were that this is not known any more
  };

  explicit SealedReceiver(std::unique_ptr<Aead> aead) : aead_(std::move(aead)) {}

  /// Precondition: is_sealed(). Opened: the frame's bytes from kFrontBytes on, kSealBytes fewer, are what was sealed.
  /// Forged: the bytes behind the front mean nothing any more. Does not look at channel and form, which the tag covers.
  Verdict open(uint8_t* frame, size_t size);

 private:
  std::unique_ptr<Aead> aead_;
  ReplayWindow window_;
};

}  // namespace switchml::seal
