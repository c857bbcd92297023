#include "transport/sealed_link.h"

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "seal/responder.h"
#include "socket/address.h"
#include "socket/endpoint_hash.h"
#include "transport/decorator.h"
#include "transport/frame_memory.h"
#include "wire/packet.h"

namespace switchml {

namespace {

using seal::kSealBytes;
using Verdict = seal::SealedReceiver::Verdict;

constexpr size_t kMostPeers = 4096;          // [SEAL-16]
constexpr size_t kScratchBytes = 256 << 10;  // Frames that leave together: they stay in the cache.
constexpr int kGreetingsUnanswered = 3;      // A peer that was sent so many is said not to answer.

size_t aligned(size_t bytes) {
  return (bytes + FrameMemory::kAlignment - 1) / FrameMemory::kAlignment * FrameMemory::kAlignment;
}

/// Results and replies go down, all else up. What a member sends goes up.
bool goes_down(const TxFrame& frame) {
  if (frame.size == 0) return false;
  const auto kind = static_cast<wire::Kind>(wire::kind_of(frame.data));
  return kind == wire::Kind::kResult || kind == wire::Kind::kReply || kind == wire::Kind::kExactResult;
}

/// The queue pairs of the link below, but for memory of tensors: no card encrypts what it writes there. [SEAL-18]
class SealedQueuePairs final : public QueuePairs {
 public:
  explicit SealedQueuePairs(QueuePairs* below) : below_(below) {}
  Status post_receive_windows(SlotRange slots, size_t frame_bytes) override {
    return below_->post_receive_windows(slots, frame_bytes + kSealBytes);
  }
  Result<wire::Introduction> queue_pair_for(const Endpoint& peer) override { return below_->queue_pair_for(peer); }
  Status connect(const Endpoint& peer, const wire::Introduction& its) override { return below_->connect(peer, its); }
  bool is_connected(const Endpoint& peer) const override { return below_->is_connected(peer); }
  void disconnect(const Endpoint& peer) override { below_->disconnect(peer); }

 private:
  QueuePairs* const below_;
};

/// The other end of a path.
struct Peer {
  Endpoint to;
  bool beside = false;
  std::optional<seal::Initiator> initiator;
  std::optional<seal::Responder> responder;
  uint64_t greeted_in = 0;  // the last burst with a greeting to it
  bool is_proven = false;   // It has opened a frame, or has been sent to by this end.
  std::list<Peer*>::iterator place;
};

/// Peers by endpoint; those of which nothing has been heard for longest go first.
class Peers {
 public:
  Peer* find(const Endpoint& to, bool beside) {
    if (last_ != nullptr && last_->to == to && last_->beside == beside) return last_;
    const auto found = table_.find(key_of(to, beside));
    if (found == table_.end()) return nullptr;
    last_ = &found->second;
    return last_;
  }
  Peer& find_or_add(const Endpoint& to, bool beside, bool is_proven) {
    if (Peer* const known = find(to, beside)) return *known;
    if (table_.size() == kMostPeers) forget(*(unproven_.empty() ? proven_ : unproven_).front());
    Peer& peer = table_[key_of(to, beside)];
    peer.to = to;
    peer.beside = beside;
    peer.is_proven = is_proven;
    std::list<Peer*>& order = is_proven ? proven_ : unproven_;
    peer.place = order.insert(order.end(), &peer);
    return peer;
  }
  /// It was heard of: a frame of it has been opened.
  void heard(Peer& peer) {
    proven_.splice(proven_.end(), peer.is_proven ? proven_ : unproven_, peer.place);
    peer.is_proven = true;
  }
  template <typename Test>
  Peer* find_if(const Test& test) {
    for (auto& [endpoint, peer] : table_) {
      if (test(peer)) return &peer;
    }
    return nullptr;
  }

 private:
  // A card's peer is reached by its queue pair and beside it: two ways, which may end in two links there. [SEAL-17]
  static Endpoint key_of(const Endpoint& to, bool beside) {
    Endpoint key = to;
    if (beside) key.carrier = Carrier::kPackets;
    return key;
  }
  void forget(Peer& peer) {
    if (last_ == &peer) last_ = nullptr;
    (peer.is_proven ? proven_ : unproven_).erase(peer.place);
    table_.erase(key_of(peer.to, peer.beside));
  }

  std::unordered_map<Endpoint, Peer, EndpointHash> table_;
  std::list<Peer*> proven_;
  std::list<Peer*> unproven_;  // They have sent a greeting, which may be one that an attacker repeats.
  Peer* last_ = nullptr;
};

class SealedLink final : public TransportDecorator {
 public:
  SealedLink(std::unique_ptr<Transport> below, const SealKey& key, SealEnd end, SealOptions options)
      : TransportDecorator(*below),
        below_(std::move(below)),
        max_frame_bytes_(below_->limits().max_frame_bytes),
        end_(end),
        key_may_differ_(options.key_may_differ),
        tools_{seal::GreetingKey(key), options.random ? std::move(options.random) : random_bytes,
               std::move(options.make_aead)},
        counters_(options.counters ? std::move(options.counters) : std::make_shared<SealCounters>()) {
    if (QueuePairs* const pairs = below_->queue_pairs()) pairs_.emplace(pairs);
    scratch_bytes_ = std::max(kScratchBytes, aligned(max_frame_bytes_));
    scratch_ = below_->allocate(scratch_bytes_);
  }

  TransportLimits limits() const override {
    TransportLimits limits = below_->limits();
    limits.max_frame_bytes = max_frame_bytes_ - kSealBytes;
    return limits;
  }
  size_t path_frame_bytes(const Endpoint& to) const override { return below_->path_frame_bytes(to) - kSealBytes; }
  bool gathers() const override { return true; }
  QueuePairs* queue_pairs() override { return pairs_ ? &*pairs_ : nullptr; }
  bool take_refusal() override { return below_->take_refusal(); }
  std::string take_error() override;

  size_t send(const TxFrame* frames, size_t count) override;
  size_t receive(RxFrame* frames, size_t count) override;
  void release() override {
    below_->release();
    lends_ = false;
  }

 private:
  // ---- sending ----
  void put(const TxFrame& frame, size_t position);
  void greet(Peer& peer, const TxFrame& frame, size_t position);
  void put_sealed(Peer& peer, seal::SealedSender* sender, const TxFrame& frame, size_t position);
  // After frames that were refused a member's wait for their turn. A switch has others to send to.
  bool holds_back() const { return refused_ && end_ == SealEnd::kMember; }
  bool has_room(size_t bytes);
  void emit(size_t bytes, const TxFrame& like, size_t position);
  void flush();
  bool goes_beside(const TxFrame& frame);
  void send_kept(Peer& peer);

  // ---- receiving ----
  bool take(RxFrame* frame);
  void on_greeting(const RxFrame& frame);
  void on_answer(const RxFrame& frame);
  bool open(RxFrame* frame, seal::Form form);
  Verdict open_with(Peer& peer, seal::Form form, uint8_t* bytes, size_t size);

  static void count(std::atomic<uint64_t>* counter) {
    counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  const std::unique_ptr<Transport> below_;
  const size_t max_frame_bytes_;  // sealed
  const SealEnd end_;
  const bool key_may_differ_;
  const seal::Tools tools_;
  const std::shared_ptr<SealCounters> counters_;
  std::optional<SealedQueuePairs> pairs_;
  Peers peers_;
  std::string error_;
  bool lends_ = false;  // frames to the caller

  // One burst: sealed frames in scratch memory, and the positions in the caller's burst that they stand for.
  uint8_t* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  size_t filled_ = 0;
  std::vector<TxFrame> burst_;
  std::vector<size_t> positions_;
  std::optional<size_t> refused_;  // the first position that `below` did not take
  uint64_t bursts_ = 0;
};

size_t SealedLink::send(const TxFrame* frames, size_t count) {
  ++bursts_;
  refused_.reset();
  for (size_t i = 0; i < count && !holds_back(); ++i) put(frames[i], i);
  flush();
  // What is lost here was taken as far as the caller can see.
  return refused_.value_or(count);
}

void SealedLink::put(const TxFrame& frame, size_t position) {
  if (frame.target.bytes != 0) {  // [SEAL-18]
    error_ = to_string(*frame.to) + " names memory for a result, which no card writes where frames are encrypted";
    return;
  }
  const bool beside = goes_beside(frame);
  if (end_ == SealEnd::kSwitch && goes_down(frame)) {
    Peer* const peer = peers_.find(*frame.to, beside);
    if (peer != nullptr && peer->responder) put_sealed(*peer, peer->responder->sender(), frame, position);
    return;
  }
  Peer& peer = peers_.find_or_add(*frame.to, beside, true);
  if (!peer.initiator) peer.initiator.emplace(tools_);
  peer.initiator->before_sending({frame.data, frame.size}, {frame.rest, frame.rest_size});
  // In this order: a greeting takes the place of one before it of which no data has come.
  put_sealed(peer, peer.initiator->sender(), frame, position);
  if (peer.initiator->due() != nullptr && peer.greeted_in != bursts_) greet(peer, frame, position);
}

/// Whether it is a request that a queue pair is not for, or cannot carry yet.
bool SealedLink::goes_beside(const TxFrame& frame) {
  if (!pairs_ || frame.to->carrier != Carrier::kRdma || frame.size < wire::kControlBytes) return false;
  const wire::Control control = wire::read_control(frame.data);
  if (control.kind != static_cast<uint8_t>(wire::Kind::kRequest)) return false;
  return control.type == static_cast<uint8_t>(wire::Request::kMeet) || !pairs_->is_connected(*frame.to);
}

/// Sends the greeting for the sake of `frame`.
void SealedLink::greet(Peer& peer, const TxFrame& frame, size_t position) {
  if (!has_room(seal::kGreetingBytes)) return;
  std::copy(peer.initiator->due()->begin(), peer.initiator->due()->end(), scratch_ + filled_);
  TxFrame like;
  like.to = frame.to;
  like.beside = peer.beside;
  emit(seal::kGreetingBytes, like, position);
  peer.initiator->greeted();
  peer.greeted_in = bursts_;
}

void SealedLink::put_sealed(Peer& peer, seal::SealedSender* sender, const TxFrame& frame, size_t position) {
  if (sender == nullptr) return;
  const size_t bytes = size_t{frame.size} + frame.rest_size + kSealBytes;
  if (bytes > max_frame_bytes_) {
    error_ = to_string(*frame.to) + ": a frame of " + std::to_string(bytes - kSealBytes) + " bytes is longer than " +
             std::to_string(max_frame_bytes_ - kSealBytes) + " and was not sent";
    return;
  }
  if (!has_room(bytes)) return;
  if (!sender->seal({frame.data, frame.size}, {frame.rest, frame.rest_size}, scratch_ + filled_)) return;
  TxFrame like = frame;
  like.beside = peer.beside;
  emit(bytes, like, position);
}

/// Room for so many bytes in scratch memory. False: this frame is not to leave.
bool SealedLink::has_room(size_t bytes) {
  if (burst_.size() == kBurst || filled_ + bytes > scratch_bytes_) flush();
  return !holds_back();
}

void SealedLink::emit(size_t bytes, const TxFrame& like, size_t position) {
  TxFrame frame;
  frame.data = scratch_ + filled_;
  frame.size = static_cast<uint32_t>(bytes);
  frame.to = like.to;
  frame.may_change = true;
  frame.ecn = like.ecn;
  frame.beside = like.beside;
  burst_.push_back(frame);
  positions_.push_back(position);
  filled_ += aligned(bytes);
}

void SealedLink::flush() {
  if (burst_.empty()) return;
  const size_t taken = below_->send(burst_.data(), burst_.size());
  if (taken < burst_.size() && !refused_) refused_ = positions_[taken];
  burst_.clear();
  positions_.clear();
  filled_ = 0;
}

void SealedLink::send_kept(Peer& peer) {
  const auto kept = peer.initiator->take_kept();
  ++bursts_;
  refused_.reset();
  for (const auto& bytes : kept) {
    TxFrame frame{bytes.data(), static_cast<uint32_t>(bytes.size()), &peer.to};
    put_sealed(peer, peer.initiator->sender(), frame, 0);
  }
  flush();
}

size_t SealedLink::receive(RxFrame* frames, size_t count) {
  // Bounded, so that a flood of what is dropped does not hold the caller.
  for (int round = 0; round < 16; ++round) {
    const size_t got = below_->receive(frames, count);
    size_t kept = 0;
    for (size_t i = 0; i < got; ++i) {
      if (take(&frames[i])) frames[kept++] = frames[i];
    }
    lends_ = lends_ || kept != 0;
    if (kept != 0 || got == 0) return kept;
    if (!lends_) below_->release();  // The caller has nothing to release, and more may have arrived.
  }
  return 0;
}

/// Whether the caller gets the frame, which is opened then.
bool SealedLink::take(RxFrame* frame) {
  if (!seal::is_sealed(frame->data, frame->size)) {
    count(&counters_->dropped_plain);  // [SEAL-15]
    return false;
  }
  const seal::Form form = seal::read_front(frame->data).form;
  switch (form) {
    case seal::Form::kGreeting: on_greeting(*frame); return false;
    case seal::Form::kAnswer: on_answer(*frame); return false;
    case seal::Form::kFromInitiator:
    case seal::Form::kFromResponder: return open(frame, form);
  }
  count(&counters_->dropped_forged);
  return false;
}

void SealedLink::on_greeting(const RxFrame& frame) {
  const auto greeting = seal::greeting_of(frame.data, frame.size, seal::Form::kGreeting);
  const bool is_other = end_ == SealEnd::kSwitch && greeting && tools_.key.is_signed(*greeting, {}) &&
                        peers_.find_if([key = seal::public_key_of(*greeting)](const Peer& peer) {
                          return peer.initiator && peer.initiator->has_greeted_with(key);  // its own, sent back
                        }) == nullptr;
  if (!is_other) return count(&counters_->dropped_forged);
  Peer& peer = peers_.find_or_add(frame.from, frame.beside, false);
  if (!peer.responder) peer.responder.emplace(tools_);
  const seal::GreetingFrame* const answer = peer.responder->on_greeting(*greeting);
  if (answer == nullptr) return count(&counters_->dropped_forged);
  TxFrame out{answer->data(), static_cast<uint32_t>(answer->size()), &frame.from};
  out.may_change = true;
  out.beside = frame.beside;
  below_->send(&out, 1);
}

void SealedLink::on_answer(const RxFrame& frame) {
  Peer* const peer = peers_.find(frame.from, frame.beside);
  if (peer == nullptr || !peer->initiator || !peer->initiator->on_answer(frame.data, frame.size)) {
    return count(&counters_->dropped_forged);
  }
  count(&counters_->channels);
  peers_.heard(*peer);
  send_kept(*peer);
}

bool SealedLink::open(RxFrame* frame, seal::Form form) {
  Peer* const peer = peers_.find(frame->from, frame->beside);
  // Lent frames may be changed by what is directly above their transport (transport/transport.h).
  auto* const bytes = const_cast<uint8_t*>(frame->data);
  const Verdict verdict = peer == nullptr ? Verdict::kForged : open_with(*peer, form, bytes, frame->size);
  switch (verdict) {
    case Verdict::kForged: count(&counters_->dropped_forged); return false;
    case Verdict::kReplayed: count(&counters_->dropped_replayed); return false;
    case Verdict::kOpened: break;
  }
  peers_.heard(*peer);
  frame->data += seal::kFrontBytes;
  frame->size -= static_cast<uint32_t>(kSealBytes);
  return true;
}

Verdict SealedLink::open_with(Peer& peer, seal::Form form, uint8_t* bytes, size_t size) {
  if (form == seal::Form::kFromInitiator) return peer.responder ? peer.responder->open(bytes, size) : Verdict::kForged;
  return peer.initiator ? peer.initiator->open(bytes, size) : Verdict::kForged;
}

std::string SealedLink::take_error() {
  std::string error = below_->take_error();
  if (!error.empty()) return error;
  error.swap(error_);
  if (!error.empty()) return error;
  if (!key_may_differ_) return {};
  const Peer* const silent = peers_.find_if([](const Peer& peer) {
    return peer.initiator && !peer.initiator->has_channel() && peer.initiator->unanswered() >= kGreetingsUnanswered;
  });
  if (silent == nullptr) return {};
  return to_string(silent->to) + " does not answer encrypted greetings: has it the same key?";
}

}  // namespace

std::unique_ptr<Transport> seal_link(std::unique_ptr<Transport> below, const SealKey& key, SealEnd end,
                                     SealOptions options) {
  seal::require_openssl();  // Here, and not with the first frame.
  return std::make_unique<SealedLink>(std::move(below), key, end, std::move(options));
}

}  // namespace switchml
