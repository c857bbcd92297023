#include "seal/responder.h"

#include <algorithm>
#include <utility>

namespace switchml::seal {

const GreetingFrame* Responder::on_greeting(const GreetingFrame& greeting) {
  const PublicKey its = public_key_of(greeting);
  for (std::optional<Channel>* channel : {&pending_, &current_, &previous_}) {
    if (*channel && (*channel)->greeting == its && tools_.key.is_signed(greeting, {})) return &(*channel)->answer;
  }
  const auto answer = answer_greeting(tools_.key, greeting, tools_.random);
  if (!answer) return nullptr;
  const uint8_t number = read_front(greeting.data()).channel;
  pending_.reset();
  pending_.emplace(
      Channel{number,
              its,
              answer->frame,
              {tools_.make_aead(answer->keys.from_responder, AeadUse::kSeal), number, Form::kFromResponder},
              SealedReceiver(tools_.make_aead(answer->keys.from_initiator, AeadUse::kOpen))});
  return &pending_->answer;
}

bool Responder::is_ambiguous(uint8_t number) const {
  int channels = 0;
  for (const std::optional<Channel>* channel : {&pending_, &current_, &previous_}) {
    if (*channel && (*channel)->number == number) ++channels;
  }
  return channels > 1;
}

SealedReceiver::Verdict Responder::open(uint8_t* frame, size_t size) {
  const uint8_t number = read_front(frame).channel;
  // An initiator that has begun anew counts from 0 again. Trying a key destroys the bytes where it is the wrong one.
  const bool ambiguous = is_ambiguous(number);
  if (ambiguous) copy_.assign(frame, frame + size);
  auto verdict = SealedReceiver::Verdict::kForged;
  for (std::optional<Channel>* channel : {&current_, &pending_, &previous_}) {
    if (!*channel || (*channel)->number != number) continue;
    const auto found = open_with(channel, frame, size);
    if (found == SealedReceiver::Verdict::kOpened) return found;
    if (found == SealedReceiver::Verdict::kReplayed) verdict = found;
    if (ambiguous) std::copy(copy_.begin(), copy_.end(), frame);
  }
  return verdict;
}

// [SEAL-14]
SealedReceiver::Verdict Responder::open_with(std::optional<Channel>* channel, uint8_t* frame, size_t size) {
  const auto verdict = (*channel)->receiver.open(frame, size);
  if (verdict != SealedReceiver::Verdict::kOpened || channel != &pending_) return verdict;
  previous_.reset();
  if (current_) previous_.emplace(std::move(*current_));
  current_.reset();
  current_.emplace(std::move(*pending_));
  pending_.reset();
  return verdict;
}

}  // namespace switchml::seal
