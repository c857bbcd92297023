#include "transport/spread_link.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "transport/decorator.h"
#include "wire/packet.h"

namespace switchml {

namespace {

static_assert(wire::kHeaderOffsetSlot == wire::kExactHeaderOffsetSlot);  // both kinds of contribution have it there

/// None: it concerns no slot.
std::optional<uint16_t> slot_of(const TxFrame& frame) {
  if (wire::kind_of(frame.data) != static_cast<uint8_t>(wire::Kind::kRequest)) {
    if (frame.size < wire::kHeaderBytes) return {};
    return wire::detail::load<uint16_t>(frame.data + wire::kHeaderOffsetSlot);
  }
  if (frame.size < wire::kControlBytes + wire::kProbeBytes) return {};
  if (wire::read_control(frame.data).type != static_cast<uint8_t>(wire::Request::kProbe)) return {};
  return wire::read_probe(frame.data + wire::kControlBytes).slot;
}

class SpreadLink final : public TransportDecorator {
 public:
  SpreadLink(std::unique_ptr<Transport> link, std::vector<Endpoint> switches)
      : TransportDecorator(*link), link_(std::move(link)), switches_(std::move(switches)) {
    SWITCHML_ASSERT(!switches_.empty());
  }

  size_t send(const TxFrame* frames, size_t count) override {
    outgoing_.clear();
    for (size_t i = 0; i < count; ++i) address(frames[i]);
    const size_t taken = link_->send(outgoing_.data(), outgoing_.size());
    return taken == outgoing_.size() ? count : std::min(taken, count);
  }
  size_t receive(RxFrame* frames, size_t count) override {
    const size_t received = link_->receive(frames, count);
    RxFrame* const end = std::remove_if(frames, frames + received, [this](const RxFrame& f) { return !is_known(f); });
    const auto kept = static_cast<size_t>(end - frames);
    lends_ = lends_ || kept > 0;
    if (!lends_ && received > 0) link_->release();  // or nobody would
    return kept;
  }
  void release() override {
    link_->release();
    lends_ = false;
  }

 private:
  void address(TxFrame frame) {
    if (frame.to->size != 0) {
      outgoing_.push_back(frame);
      return;
    }
    const std::optional<uint16_t> slot = slot_of(frame);
    if (slot) {
      frame.to = &switches_[*slot % switches_.size()];  // [MOVE-6]
      outgoing_.push_back(frame);
      return;
    }
    for (const Endpoint& each : switches_) {
      frame.to = &each;
      outgoing_.push_back(frame);
    }
  }

  bool is_known(const RxFrame& frame) const {
    return std::find(switches_.begin(), switches_.end(), frame.from) != switches_.end();
  }

  const std::unique_ptr<Transport> link_;
  const std::vector<Endpoint> switches_;
  std::vector<TxFrame> outgoing_;
  bool lends_ = false;  // frames that are to be released
};

}  // namespace

std::unique_ptr<Transport> spread_link(std::unique_ptr<Transport> link, std::vector<Endpoint> switches) {
  return std::make_unique<SpreadLink>(std::move(link), std::move(switches));
}

}  // namespace switchml
