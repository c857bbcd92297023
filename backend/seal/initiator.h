// The end of a sealed path that greets, as workers do a switch, and a child switch its parent. It decides when there is
// to be a new channel, and which frames wait for one. A state machine: no I/O, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "seal/greeting.h"

namespace switchml::seal {

/// What both ends of a path use.
struct Tools {
  GreetingKey key;
  RandomBytes random;
  MakeAead make_aead;
};

/// Throws StatusError (kUnsupported) where OpenSSL lacks anything that sealing takes.
void require_openssl();

/// Frames after which an initiator greets anew: far below kLastCounter, and what one key of AES-GCM may seal.
inline constexpr uint64_t kFramesPerChannel = uint64_t{1} << 32;  // [SEAL-13]

class Initiator {
 public:
  /// Bounds of what waits for an answer: the newest frames of up to so many bytes.
  static constexpr size_t kKeptFrames = 4;
  static constexpr size_t kKeptBytes = 256;
  /// Silence of the other end, in repeated contributions, from which on it may have lost the channel; a request counts
  /// as eight. Twice as much each time that an answer changes nothing, up to kMostSilence.
  static constexpr uint64_t kSilence = 16;
  static constexpr uint64_t kMostSilence = 64;
  /// A greeting that is not answered while an older channel works is repeated after so many frames.
  static constexpr uint64_t kRepeatAfter = 1024;

  /// `tools` outlive it.
  explicit Initiator(const Tools& tools) : tools_(tools) {}

  /// Call it for each frame, before it is sealed: it may be time for a new channel, and the frame may have to wait for
  /// it. `head` has all of a request.
  void before_sending(ByteView head, ByteView rest);
  /// What seals frames now; null: they are lost, but for those kept.
  SealedSender* sender() { return current_ ? &current_->sender : nullptr; }
  /// The greeting that is to be sent now; null: none. It is due until greeted().
  const GreetingFrame* due() const { return due_ && pending_ ? &pending_->frame() : nullptr; }
  void greeted();

  /// Takes an answer. True: there is a new channel, and take_kept() has what waited for it.
  bool on_answer(const uint8_t* frame, size_t size);
  std::vector<std::vector<uint8_t>> take_kept();
  /// SealedReceiver::open() of a frame of form kFromResponder. [SEAL-7]
  SealedReceiver::Verdict open(uint8_t* frame, size_t size);

  /// Whether the greeting of this public key is one of this end that waits for its answer.
  bool has_greeted_with(const PublicKey& its) const { return pending_ && public_key_of(pending_->frame()) == its; }
  /// How often the greeting that waits has been sent; 0: none waits.
  int unanswered() const { return pending_ ? greetings_ : 0; }
  /// Whether the other end has shown before that it knows the key.
  bool has_channel() const { return current_.has_value(); }

 private:
  struct Channel {
    uint8_t number;
    SealedSender sender;
    SealedReceiver receiver;
  };
  void note_silence(uint64_t weight);
  void note_epoch(ByteView frame);
  void keep(ByteView head, ByteView rest);

  const Tools& tools_;
  std::optional<Channel> current_;
  std::optional<Channel> previous_;  // opens only
  std::optional<Greeting> pending_;
  uint8_t next_number_ = 0;
  int greetings_ = 0;
  bool due_ = false;
  uint64_t greeted_at_ = 0;     // Frames of current_ then.
  bool wants_channel_ = false;  // a new one, in place of current_
  uint64_t unheard_ = 0;        // Silence so far.
  uint64_t most_unheard_ = kSilence;
  std::optional<uint32_t> epoch_;  // The last join's.
  std::deque<std::vector<uint8_t>> kept_;
};

}  // namespace switchml::seal
