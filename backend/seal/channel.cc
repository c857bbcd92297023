#include "seal/channel.h"

#include <algorithm>
#include <utility>

namespace switchml::seal {

bool is_sealed(const uint8_t* frame, size_t size) {
  if (size < kFrontBytes) return false;
  const wire::SealFront front = wire::read_seal_front(frame);
  return front.version == wire::kVersion && front.kind == static_cast<uint8_t>(wire::Kind::kSealed);
}

Front read_front(const uint8_t* frame) {
  const wire::SealFront front = wire::read_seal_front(frame);
  return {front.channel, static_cast<Form>(front.form), uint64_t{front.counter_high} << 32 | front.counter_low};
}

void write_front(const Front& front, uint8_t* out) {  // [SEAL-2]
  wire::SealFront written;
  written.version = wire::kVersion;
  written.kind = static_cast<uint8_t>(wire::Kind::kSealed);
  written.channel = front.channel;
  written.form = static_cast<uint8_t>(front.form);
  written.counter_high = static_cast<uint16_t>(front.counter >> 32);
  written.counter_low = static_cast<uint32_t>(front.counter);
  wire::write_seal_front(written, out);
}

bool SealedSender::seal(ByteView head, ByteView rest, uint8_t* out) {  // [SEAL-3]
  if (front_.counter > kLastCounter) return false;
  const uint64_t counter = front_.counter++;
  write_front({front_.channel, front_.form, counter}, out);
  aead_->seal(counter, {out, kFrontBytes}, head, rest, out + kFrontBytes);
  return true;
}

void ReplayWindow::note(uint64_t counter) {
  if (counter > newest_) {
    const uint64_t steps = std::min(counter / 64 - newest_ / 64, kWords);
    for (uint64_t i = 1; i <= steps; ++i) words_[(newest_ / 64 + i) % kWords] = 0;
    newest_ = counter;
  }
  words_[word_of(counter)] |= uint64_t{1} << counter % 64;
}

SealedReceiver::Verdict SealedReceiver::open(uint8_t* frame, size_t size) {
  if (size < kSealBytes) return Verdict::kForged;
  const uint64_t counter = read_front(frame).counter;
  // Asked first: it is cheap. Noted last: an attacker may write any counter.
  if (window_.has(counter)) return Verdict::kReplayed;  // [SEAL-6]
  if (!aead_->open(counter, {frame, kFrontBytes}, frame + kFrontBytes, size - kSealBytes)) return Verdict::kForged;
  window_.note(counter);
  return Verdict::kOpened;
}

}  // namespace switchml::seal
