// Sending over a TCP connection: many frames with one system call, and what the kernel cut kept for the next one.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/stream_frames.h"
#include "transport/transport.h"

namespace switchml {

/// Bytes of one connection that were taken and that the kernel has not got yet. Its memory is a small multiple of the
/// most that was queued at a time, however much passes through; an empty queue keeps up to kKeptBytes.
class SendQueue {
 public:
  static constexpr size_t kKeptBytes = 256 << 10;

  const uint8_t* data() const { return bytes_.data() + sent_; }
  size_t size() const { return bytes_.size() - sent_; }
  void append(const uint8_t* data, size_t size) {
    if (bytes_.empty()) ++steps_;
    bytes_.insert(bytes_.end(), data, data + size);
  }
  void drop(size_t bytes) {
    if (bytes != 0) ++steps_;
    sent_ += bytes;
    if (sent_ == bytes_.size()) clear();
    if (sent_ > size()) compact();
  }
  void clear() {
    bytes_.clear();
    if (bytes_.capacity() > kKeptBytes) bytes_ = std::vector<uint8_t>();
    sent_ = 0;
  }
  /// Grows whenever bytes leave, and when the first ones come.
  uint64_t steps() const { return steps_; }
  /// Bytes that it keeps allocated.
  size_t memory_bytes() const { return bytes_.capacity(); }

 private:
  /// Moves less than what has left since the last time.
  void compact() {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }

  std::vector<uint8_t> bytes_;
  size_t sent_ = 0;  // so many at the front have left
  uint64_t steps_ = 0;
};

/// Shared by the connections of a transport; keeps nothing of a frame. One thread.
class TcpSender {
 public:
  /// Frames that are not begun are queued up to `queue_bytes` with their prefixes; if all queues hold more than
  /// `all_bytes` then, up to `least_bytes`.
  TcpSender(size_t queue_bytes, size_t least_bytes, size_t all_bytes)
      : queue_bytes_(queue_bytes), least_bytes_(std::min(queue_bytes, least_bytes)), all_bytes_(all_bytes) {}

  /// Sends the queue and then the frames that `burst` names. Returns how many of these were taken. `error`: what the
  /// kernel said if the connection is dead, else unchanged.
  size_t send(int fd, SendQueue* queue, const TxFrame* frames, const std::vector<uint32_t>& burst, int* error);
  /// Empties a queue that send() has filled.
  void discard(SendQueue* queue) {
    queued_ -= queue->size();
    queue->clear();
  }

 private:
  static constexpr size_t kFrames = 255;

  size_t send_now(int fd, SendQueue* queue, const TxFrame* frames, const std::vector<uint32_t>& burst, int* error);
  size_t gather(const SendQueue& queue, const TxFrame* frames, const uint32_t* burst, size_t count, size_t* vectors);
  size_t consume(size_t sent, SendQueue* queue, const TxFrame* frames, const uint32_t* burst);
  size_t enqueue(SendQueue* queue, const TxFrame* frames, const uint32_t* burst, size_t count);

  const size_t queue_bytes_;
  const size_t least_bytes_;
  const size_t all_bytes_;
  size_t queued_ = 0;  // bytes of all queues but the one in hand
  std::array<uint8_t[kStreamPrefixBytes], kFrames> prefixes_{};
  std::array<iovec, 1 + 3 * kFrames> vectors_{};
};

}  // namespace switchml
