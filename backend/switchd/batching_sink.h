// Collects what the switch sends during a burst and hands it to the transport in few calls.
//
// Small frames are copied and sent at the end of the burst, ordered by destination, so that the transport can pack runs
// of equal frames to one endpoint into one system call (GSO). Frames above a jumbo Ethernet frame's size gain nothing
// from that and would cost a copy: they leave at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softswitch/switch.h"
#include "transport/transport.h"

namespace switchml {

class BatchingSink : public softswitch::PacketSink {
 public:
  /// Frames up to this size are held back until flush().
  static constexpr size_t kCopyBytes = 9216;

  /// Borrows the transport, which must outlive the sink.
  explicit BatchingSink(Transport& transport) : transport_(transport) {}

  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override;
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override;
  /// Sends what was held back. Frames that the transport does not take are lost, as on any network.
  void flush();

 private:
  struct Pending {
    Endpoint to;
    size_t offset = 0;  // into bytes_
    uint32_t size = 0;
  };

  size_t copy(const uint8_t* frame, size_t size);

  Transport& transport_;
  std::vector<uint8_t> bytes_;
  std::vector<Pending> pending_;
  std::vector<TxFrame> frames_;  // scratch of flush()
};

}  // namespace switchml
