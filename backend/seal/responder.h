// The end of a sealed path that answers greetings, as a switch does. A state machine: no I/O, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "seal/greeting.h"
#include "seal/initiator.h"

namespace switchml::seal {

/// One greeting and its answer, before it is known whether the greeting end is there: a greeting that is repeated by
/// an attacker makes no more than this.
class Responder {
 public:
  /// `tools` outlive it.
  explicit Responder(const Tools& tools) : tools_(tools) {}

  /// The answer to a greeting, which is the same again for the same greeting. Null: the greeting's end does not know
  /// the key.
  const GreetingFrame* on_greeting(const GreetingFrame& greeting);
  /// What seals frames; null: no data has come yet, and frames to there are lost.
  SealedSender* sender() { return current_ ? &current_->sender : nullptr; }
  /// Opens a frame whose form is kFromInitiator (SealedReceiver::open()). The first that opens of a new channel makes
  /// it the one of sender().
  SealedReceiver::Verdict open(uint8_t* frame, size_t size);

 private:
  struct Channel {
    uint8_t number;
    PublicKey greeting;
    GreetingFrame answer;
    SealedSender sender;
    SealedReceiver receiver;
  };
  bool is_ambiguous(uint8_t number) const;
  SealedReceiver::Verdict open_with(std::optional<Channel>* channel, uint8_t* frame, size_t size);

  const Tools& tools_;
  std::optional<Channel> pending_;
  std::optional<Channel> current_;
  std::optional<Channel> previous_;  // opens only
  std::vector<uint8_t> copy_;        // scratch memory of open()
};

}  // namespace switchml::seal
