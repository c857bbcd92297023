#include "transport/faulty.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "transport/decorator.h"

namespace switchml {

namespace {

/// What is decided about a frame. Each decision draws from a stream of its own, so that changing one probability leaves
/// the other decisions as they were.
enum class Draw : uint64_t { kSendLoss = 1, kReceiveLoss, kDuplicate, kDelay, kDelayLength, kCorrupt, kCorruptBit };

/// A random number that depends on nothing but its arguments (the finalizer of splitmix64, chained).
uint64_t draw(uint64_t seed, uint64_t frame, Draw what) {
  uint64_t state = seed;
  for (const uint64_t input : {frame, static_cast<uint64_t>(what)}) {
    state += 0x9e3779b97f4a7c15ULL * (input + 1);
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
    state ^= state >> 31;
  }
  return state;
}

class FaultyTransport final : public TransportDecorator {
 public:
  FaultyTransport(std::unique_ptr<Transport> below, const Faults& faults)
      : TransportDecorator(*below), below_(std::move(below)), faults_(faults) {}

  int readable() const override { return -1; }  // It has frames of its own.

  size_t send(const TxFrame* frames, size_t count) override;
  size_t receive(RxFrame* frames, size_t count) override;
  void release() override {
    below_->release();
    lends_ = false;
  }
  bool take_refusal() override { return below_->take_refusal(); }

 private:
  struct Held {
    std::vector<uint8_t> bytes;
    Endpoint to;
    uint64_t due = 0;  // leaves before the sent frame of this number
  };

  bool happens(double probability, uint64_t frame, Draw what) const {
    constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53: the upper bits as a number in [0, 1)
    return static_cast<double>(draw(faults_.seed, frame, what) >> 11) * kUnit < probability;
  }
  void decide(const TxFrame& frame, size_t position);
  void emit(const TxFrame& frame, size_t position);
  void emit_due(size_t position);
  std::vector<uint8_t> corrupted(const TxFrame& frame, uint64_t number) const;

  const std::unique_ptr<Transport> below_;
  const Faults faults_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  bool lends_ = false;  // frames to the caller
  std::deque<Held> held_;
  // One call's outgoing frames, the positions in the caller's burst that they stand for, and copies that they lie in.
  std::vector<TxFrame> burst_;
  std::vector<size_t> positions_;
  std::deque<Held> copies_;
};

size_t FaultyTransport::send(const TxFrame* frames, size_t count) {
  burst_.clear();
  positions_.clear();
  copies_.clear();
  for (size_t i = 0; i < count; ++i) decide(frames[i], i);
  const size_t taken = burst_.empty() ? 0 : below_->send(burst_.data(), burst_.size());
  // Frames lost here were taken as far as the caller can see.
  return taken == burst_.size() ? count : positions_[taken];
}

void FaultyTransport::decide(const TxFrame& frame, size_t position) {
  const uint64_t number = sent_++;
  emit_due(position);
  if (happens(faults_.send_loss, number, Draw::kSendLoss)) return;
  TxFrame out = frame;
  if (frame.size > 0 && happens(faults_.corrupt, number, Draw::kCorrupt)) {
    copies_.push_back({corrupted(frame, number), {}, 0});
    out.data = copies_.back().bytes.data();
  }
  if (happens(faults_.delay, number, Draw::kDelay)) {
    const auto span = static_cast<uint64_t>(std::max(faults_.delay_frames, 1));
    const uint64_t later = 1 + draw(faults_.seed, number, Draw::kDelayLength) % span;
    // It leaves after `later` more frames: before the one that follows them.
    held_.push_back({std::vector<uint8_t>(out.data, out.data + out.size), *out.to, number + later + 1});
    return;
  }
  emit(out, position);
  if (happens(faults_.duplicate, number, Draw::kDuplicate)) emit(out, position);
}

void FaultyTransport::emit(const TxFrame& frame, size_t position) {
  burst_.push_back(frame);
  positions_.push_back(position);
}

/// Frames that have been held back long enough, in the order in which they were sent.
void FaultyTransport::emit_due(size_t position) {
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->due >= sent_) {
      ++at;
      continue;
    }
    copies_.push_back(std::move(*at));
    at = held_.erase(at);
    const Held& copy = copies_.back();
    emit({copy.bytes.data(), static_cast<uint32_t>(copy.bytes.size()), &copy.to}, position);
  }
}

std::vector<uint8_t> FaultyTransport::corrupted(const TxFrame& frame, uint64_t number) const {
  std::vector<uint8_t> bytes(frame.data, frame.data + frame.size);
  const uint64_t bit = draw(faults_.seed, number, Draw::kCorruptBit) % (bytes.size() * 8);
  bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
  return bytes;
}

size_t FaultyTransport::receive(RxFrame* frames, size_t count) {
  // Bounded, so that a flood that is lost to the last frame does not hold the caller.
  for (int round = 0; round < 16; ++round) {
    const size_t got = below_->receive(frames, count);
    size_t kept = 0;
    for (size_t i = 0; i < got; ++i) {
      if (!happens(faults_.receive_loss, received_++, Draw::kReceiveLoss)) frames[kept++] = frames[i];
    }
    lends_ = lends_ || kept != 0;
    if (kept != 0 || got == 0) return kept;
    if (!lends_) below_->release();  // all of them lost: the caller has nothing to release, and more may have arrived
  }
  return 0;
}

}  // namespace

std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> below, const Faults& faults) {
  return std::make_unique<FaultyTransport>(std::move(below), faults);
}

}  // namespace switchml
