// Sending over a TCP connection: many frames with one system call, and what the kernel cut kept for the next one.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/stream_frames.h"
#include "transport/transport.h"

namespace switchml {

/// Bytes of one connection that were taken and that the kernel has not got yet.
class SendQueue {
 public:
  const uint8_t* data() const { return bytes_.data() + sent_; }
  size_t size() const { return bytes_.size() - sent_; }
  void append(const uint8_t* data, size_t size) { bytes_.insert(bytes_.end(), data, data + size); }
  void drop(size_t size) {
    sent_ += size;
    if (sent_ == bytes_.size()) clear();
  }
  void clear() {
    bytes_.clear();
    sent_ = 0;
  }

 private:
  std::vector<uint8_t> bytes_;
  size_t sent_ = 0;  // of their beginning
};

/// Shared by the connections of a transport; keeps nothing of a frame. One thread.
class TcpSender {
 public:
  /// Frames that are not begun are queued up to `queue_bytes` with their prefixes.
  explicit TcpSender(size_t queue_bytes) : queue_bytes_(queue_bytes) {}

  /// Sends the queue and then the frames that `burst` names. Returns how many of these were taken. `error`: what the
  /// kernel said if the connection is dead, else unchanged.
  size_t send(int fd, SendQueue* queue, const TxFrame* frames, const std::vector<uint32_t>& burst, int* error);

 private:
  static constexpr size_t kFrames = 255;

  size_t gather(const SendQueue& queue, const TxFrame* frames, const uint32_t* burst, size_t count);
  size_t consume(size_t sent, SendQueue* queue, const TxFrame* frames, const uint32_t* burst);
  size_t enqueue(SendQueue* queue, const TxFrame* frames, const uint32_t* burst, size_t count);

  const size_t queue_bytes_;
  std::array<uint8_t[kStreamPrefixBytes], kFrames> prefixes_{};
  std::array<iovec, 1 + 2 * kFrames> vectors_{};
};

}  // namespace switchml
