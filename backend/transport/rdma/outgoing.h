// Frames as a card sends them: from where they lie, or as copies.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "transport/rdma/card.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/pair.h"

namespace switchml::rdma {

/// One thread. The card, and the pairs that send, are others' and end in this order: pairs, this, card.
class Outgoing {
 public:
  explicit Outgoing(const Card& card)
      : memory_(card.verbs(), card.domain(), IBV_ACCESS_LOCAL_WRITE), tensors_(card.verbs(), card.domain()) {}

  /// Makes room for copies of frames. An error where the system pins no more.
  Status open(size_t frame_bytes, int copies) {
    const auto memory = memory_.allocate(aligned(frame_bytes) * static_cast<size_t>(copies));
    if (!memory.ok()) return memory.status();
    copy_key_ = memory_.find(memory.value(), 1)->lkey;
    copies_.emplace(memory.value(), aligned(frame_bytes), copies);
    return {};
  }

  RegisteredMemory& memory() { return memory_; }
  TensorRegions& tensors() { return tensors_; }
  SendBuffers& copies() { return *copies_; }

  /// Nothing: there is no buffer for it, not even after `free_some` was called. A message of a buffer is to be
  /// released when it is added wherever it goes. `pair`: the only one, or null.
  template <typename FreeSome>
  std::optional<Pair::Message> message_of(const TxFrame& frame, const Pair* pair, const FreeSome& free_some) {
    Pair::Message message;
    if (frame.rest == nullptr && frame.size <= kMostInline) {
      message.pieces[0] = piece(frame.data, frame.size, 0);
      return message;
    }
    if (find_pieces(frame, &message)) return message;
    const auto may_take = [&] { return copies_->are_for(pair == nullptr ? 0 : pair->buffers_in_use()); };
    if (!may_take()) free_some();
    if (!may_take()) return std::nullopt;
    message.buffer = copies_->take();
    uint8_t* const copy = copies_->data(message.buffer);
    std::memcpy(copy, frame.data, frame.size);
    if (frame.rest != nullptr) std::memcpy(copy + frame.size, frame.rest, frame.rest_size);
    message.pieces[0] = piece(copy, frame.size + frame.rest_size, copy_key_);
    return message;
  }

  void add(const Pair::Message& message, Pair* pair) {
    if (message.buffer >= 0) copies_->keep(message.buffer);
    pair->add(message);
  }
  void release(const Pair::Message& message) {
    if (message.buffer >= 0) copies_->release(message.buffer);
  }

 private:
  static ibv_sge piece(const uint8_t* data, uint32_t size, uint32_t key) {
    return {reinterpret_cast<uint64_t>(data), size, key};
  }

  bool find_pieces(const TxFrame& frame, Pair::Message* message) {
    if (frame.may_change) return false;
    const ibv_mr* const head = memory_.find(frame.data, frame.size);
    if (head == nullptr) return false;
    message->pieces[0] = piece(frame.data, frame.size, head->lkey);
    if (frame.rest == nullptr) return true;
    const ibv_mr* const rest = tensors_.find(frame.rest, frame.rest_size);
    if (rest == nullptr) return false;
    message->pieces[1] = piece(frame.rest, frame.rest_size, rest->lkey);
    message->count = 2;
    return true;
  }

  RegisteredMemory memory_;
  TensorRegions tensors_;
  std::optional<SendBuffers> copies_;
  uint32_t copy_key_ = 0;
};

/// What transports over a card have in common. Pairs are members of derived classes, so that they end first.
class CardTransport : public Transport, public QueuePairs {
 public:
  CardTransport(const Verbs& verbs, const CardOptions& options) : card_(verbs, options) {}

  /// Loads the library and opens a `Derived`.
  template <typename Derived, typename Options>
  static Result<std::unique_ptr<Transport>> make(const Options& options) {
    const auto verbs = Verbs::load(options.library);
    if (!verbs.ok()) return verbs.status();
    auto transport = std::make_unique<Derived>(verbs.value(), options);
    if (Status status = transport->open(); !status.ok()) return status;
    return std::unique_ptr<Transport>(std::move(transport));
  }

  const char* name() const override { return "rdma"; }
  QueuePairs* queue_pairs() override { return this; }
  uint8_t* allocate(size_t bytes) override {
    auto data = outgoing_->memory().allocate(std::max<size_t>(bytes, 1));
    if (!data.ok()) throw StatusError(data.status());
    return data.value();
  }
  void pause(Duration timeout) override { card_.pause(timeout); }
  void wake() override { card_.wake(); }
  std::string take_error() override { return card_.take_error(); }

 protected:
  Card card_;
  std::optional<Outgoing> outgoing_;
};

}  // namespace switchml::rdma
