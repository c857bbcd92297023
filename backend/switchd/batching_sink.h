// Collects the switch's output of a burst and hands it to the transport in few calls.
//
// Frames are held back and sent at the end of the burst, destination by destination, so that the frames to one endpoint
// go to the kernel in one system call: runs of equal sizes over UDP (GSO), all of them over TCP. Over UDP frames above
// a jumbo Ethernet frame's size gain nothing from that: they leave at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

class BatchingSink : public softswitch::PacketSink {
 public:
  /// Frames up to this size are held back until flush(), over UDP.
  static constexpr size_t kHeldBytes = 9216;

  /// Borrows the transport, which must outlive the sink. `held_bytes`: larger frames leave at once.
  explicit BatchingSink(Transport& transport, size_t held_bytes = kHeldBytes)
      : transport_(transport), held_bytes_(held_bytes) {}

  void set_ecn(Ecn ecn) override { ecn_ = ecn; }
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override;
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override;
  void write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
             const Endpoint& to) override;
  void reclaim() override { flush(); }
  /// Sends the held frames. Those that the transport does not take are lost, as on any network.
  void flush();

 private:
  struct HeldFrame {
    const uint8_t* data = nullptr;
    uint32_t size = 0;
    Ecn ecn = Ecn::kNone;
  };
  struct Destination {
    Endpoint to;
    std::vector<HeldFrame> held;
  };

  Destination& destination(const Endpoint& to);

  Transport& transport_;
  const size_t held_bytes_;
  Ecn ecn_ = Ecn::kNone;
  std::vector<Destination> destinations_;  // [0, used_) have frames; the others keep their memory.
  size_t used_ = 0;
  size_t expected_ = 0;          // Likely index of the next destination: a result goes to all members in order.
  std::vector<TxFrame> frames_;  // Scratch memory of flush().
};

}  // namespace switchml
