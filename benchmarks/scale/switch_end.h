// A switch of a tree: the core that ships (softswitch/switch.h) at an end of the fabric's links.
#pragma once

#include <memory>

#include "carrier.h"
#include "softswitch/switch.h"

namespace switchml::scale {

class SwitchEnd final : private softswitch::PacketSink, private softswitch::ControlTap {
 public:
  SwitchEnd(uint32_t node, Carrier* carrier);
  ~SwitchEnd() override = default;

  /// Precondition: alive().
  softswitch::SoftSwitch& core() { return *core_; }
  bool alive() const { return core_ != nullptr; }
  /// Ends the switch, with all its state.
  void kill() { core_.reset(); }
  void deliver(Frame* frame, uint32_t from);

 private:
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override;
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override;
  /// Drops probes: there is no controller.
  void request(const uint8_t*, size_t, const Endpoint&) override {}

  const uint32_t node_;
  Carrier* carrier_;
  std::unique_ptr<softswitch::SoftSwitch> core_;
  Frame* arriving_ = nullptr;
};

}  // namespace switchml::scale
