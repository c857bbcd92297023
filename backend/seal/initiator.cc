#include "seal/initiator.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "wire/packet.h"

namespace switchml::seal {

void require_openssl() {
  [[maybe_unused]] const Greeting greeting(GreetingKey({}), 0, random_bytes);
  [[maybe_unused]] const auto aead = make_aes_gcm({}, AeadUse::kSeal);
}

void Initiator::before_sending(ByteView head, ByteView rest) {
  const bool is_request =
      head.size >= wire::kControlBytes && wire::kind_of(head.data) == static_cast<uint8_t>(wire::Kind::kRequest);
  const bool is_repeat = !is_request && head.size > 1 && (head.data[1] & wire::kFlagRepeat) != 0;
  if (is_request) {
    note_silence(kSilence / 2);
    note_epoch(head);
  }
  if (is_repeat) note_silence(1);
  if (current_ && current_->sender.sealed() >= kFramesPerChannel) wants_channel_ = true;  // [SEAL-13]
  if (!pending_ && (!current_ || wants_channel_)) {
    pending_.emplace(tools_.key, next_number_, tools_.random);
    next_number_ = (next_number_ + 1) & 0x0f;
    greetings_ = 0;
    due_ = true;
  }
  wants_channel_ = false;
  if (!pending_) return;
  // The same until it is answered: more of them would be answered in vain. [SEAL-11]
  due_ = due_ || !current_ || is_request || is_repeat || current_->sender.sealed() >= greeted_at_ + kRepeatAfter;
  keep(head, rest);
}

// [SEAL-13]
void Initiator::note_silence(uint64_t weight) {
  if (!current_) return;
  unheard_ += weight;
  if (unheard_ < most_unheard_) return;
  unheard_ = 0;
  most_unheard_ = std::min(2 * most_unheard_, kMostSilence);
  wants_channel_ = true;
}

// [SEAL-13]
void Initiator::note_epoch(ByteView frame) {
  const uint8_t type = wire::read_control(frame.data).type;
  const bool joins =
      type == static_cast<uint8_t>(wire::Request::kJoin) || type == static_cast<uint8_t>(wire::Request::kMeet);
  if (!joins || frame.size < wire::kControlBytes + wire::kJoinBytes) return;
  const uint32_t epoch = wire::read_join(frame.data + wire::kControlBytes).epoch;
  if (epoch_ && *epoch_ != epoch) wants_channel_ = true;
  epoch_ = epoch;
}

void Initiator::keep(ByteView head, ByteView rest) {  // [SEAL-11]
  if (head.size + rest.size > kKeptBytes) return;
  if (kept_.size() == kKeptFrames) kept_.pop_front();
  std::vector<uint8_t>& frame = kept_.emplace_back(head.data, head.data + head.size);
  if (rest.size > 0) frame.insert(frame.end(), rest.data, rest.data + rest.size);
}

void Initiator::greeted() {
  due_ = false;
  ++greetings_;
  greeted_at_ = current_ ? current_->sender.sealed() : 0;
}

bool Initiator::on_answer(const uint8_t* frame, size_t size) {
  if (!pending_) return false;
  const auto keys = pending_->accept(tools_.key, frame, size);
  if (!keys) return false;
  const uint8_t number = pending_->channel();
  previous_.reset();
  if (current_) previous_.emplace(std::move(*current_));
  current_.reset();
  current_.emplace(Channel{number,
                           {tools_.make_aead(keys->from_initiator, AeadUse::kSeal), number, Form::kFromInitiator},
                           SealedReceiver(tools_.make_aead(keys->from_responder, AeadUse::kOpen))});
  pending_.reset();
  due_ = false;
  unheard_ = 0;
  return true;
}

std::vector<std::vector<uint8_t>> Initiator::take_kept() {
  std::vector<std::vector<uint8_t>> kept(std::make_move_iterator(kept_.begin()), std::make_move_iterator(kept_.end()));
  kept_.clear();
  return kept;
}

SealedReceiver::Verdict Initiator::open(uint8_t* frame, size_t size) {
  const uint8_t number = read_front(frame).channel;
  for (std::optional<Channel>* channel : {&current_, &previous_}) {
    if (!*channel || (*channel)->number != number) continue;
    const auto verdict = (*channel)->receiver.open(frame, size);
    if (verdict == SealedReceiver::Verdict::kOpened) {
      unheard_ = 0;
      most_unheard_ = kSilence;
      kept_.clear();  // The channel works.
    }
    return verdict;
  }
  return SealedReceiver::Verdict::kForged;
}

}  // namespace switchml::seal
