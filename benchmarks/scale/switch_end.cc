#include "switch_end.h"

namespace switchml::scale {

namespace {

softswitch::SwitchOptions options() {
  softswitch::SwitchOptions options;
  options.slot_memory_bytes = size_t{4} << 30;  // The part in use is reported.
  options.seed = 1;
  return options;
}

}  // namespace

SwitchEnd::SwitchEnd(uint32_t node, Carrier* carrier)
    : node_(node), carrier_(carrier), core_(std::make_unique<softswitch::SoftSwitch>(options())) {
  core_->hand_requests_to(this);
}

void SwitchEnd::deliver(Frame* frame, uint32_t from) {
  arriving_ = frame;
  if (alive()) core_->process(frame->data, frame->size, endpoint_of(from), carrier_->now(), *this);
  carrier_->frames.release(frame);
}

void SwitchEnd::unicast(const uint8_t* frame, size_t size, const Endpoint& to) {
  carrier_->send(carrier_->frames.copy_of(frame, size), node_, node_at(to));
}

// A frame that only passes is the arriving one.
void SwitchEnd::multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) {
  Frame* shared = arriving_;
  if (frame == arriving_->data) {
    shared->users += static_cast<uint32_t>(count);
  } else {
    shared = carrier_->frames.copy_of(frame, size);
    shared->users = static_cast<uint32_t>(count);
  }
  for (size_t i = 0; i < count; ++i) carrier_->send(shared, node_, node_at(*to[i]));
}

}  // namespace switchml::scale
