#include "switchd/batching_sink.h"

namespace switchml {

void BatchingSink::unicast(const uint8_t* frame, size_t size, const Endpoint& to) {
  if (size > held_bytes_) {
    TxFrame one{frame, static_cast<uint32_t>(size), &to};
    one.ecn = ecn_;
    transport_.send(&one, 1);
    return;
  }
  destination(to).held.push_back({frame, static_cast<uint32_t>(size), ecn_});
}

void BatchingSink::multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) {
  if (size > held_bytes_) {
    frames_.assign(count, {frame, static_cast<uint32_t>(size)});
    for (size_t i = 0; i < count; ++i) {
      frames_[i].to = to[i];
      frames_[i].ecn = ecn_;
    }
    transport_.send(frames_.data(), count);
    return;
  }
  const HeldFrame held{frame, static_cast<uint32_t>(size), ecn_};
  for (size_t i = 0; i < count; ++i) destination(*to[i]).held.push_back(held);
}

void BatchingSink::write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
                         const Endpoint& to) {
  TxFrame one{frame, static_cast<uint32_t>(size), &to};
  one.rest = elements;
  one.rest_size = target.bytes;
  one.target = target;
  one.may_change = true;
  transport_.send(&one, 1);
}

BatchingSink::Destination& BatchingSink::destination(const Endpoint& to) {
  const auto is = [&to](const Destination& d) { return d.to == to && d.to.via == to.via; };
  size_t index = expected_ < used_ ? expected_ : 0;
  if (index >= used_ || !is(destinations_[index])) {
    index = 0;
    while (index < used_ && !is(destinations_[index])) ++index;
  }
  if (index == used_) {
    if (used_ == destinations_.size()) destinations_.emplace_back();
    destinations_[used_++].to = to;
  }
  expected_ = index + 1;
  return destinations_[index];
}

void BatchingSink::flush() {
  if (used_ == 0) return;
  frames_.clear();
  for (size_t i = 0; i < used_; ++i) {
    Destination& d = destinations_[i];
    for (const HeldFrame& held : d.held) {
      frames_.push_back({held.data, held.size, &d.to});
      frames_.back().ecn = held.ecn;
    }
    d.held.clear();
  }
  transport_.send(frames_.data(), frames_.size());
  used_ = 0;
  expected_ = 0;
}

}  // namespace switchml
