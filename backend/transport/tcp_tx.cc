#include "transport/tcp_tx.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace switchml {

namespace {

iovec vector_of(const uint8_t* data, size_t size) { return {const_cast<uint8_t*>(data), size}; }

/// Bytes of a frame and its prefix.
size_t bytes_of(const TxFrame& frame) { return kStreamPrefixBytes + frame.size + frame.rest_size; }

/// Queues a frame, but for its first `sent` bytes.
void queue_rest(SendQueue* queue, const uint8_t* prefix, const TxFrame& frame, size_t sent) {
  for (const iovec& piece : {vector_of(prefix, kStreamPrefixBytes), vector_of(frame.data, frame.size),
                             vector_of(frame.rest, frame.rest_size)}) {
    const size_t begin = std::min(sent, piece.iov_len);
    if (begin < piece.iov_len)
      queue->append(static_cast<const uint8_t*>(piece.iov_base) + begin, piece.iov_len - begin);
    sent -= begin;
  }
}

/// Bytes sent; 0: the kernel takes none for now; -1: the connection is dead, and errno says why.
ssize_t send_vectors(int fd, iovec* vectors, size_t count) {
  msghdr header{};
  header.msg_iov = vectors;
  header.msg_iovlen = count;
  for (;;) {
    const ssize_t sent = ::sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM ? 0 : -1;
  }
}

}  // namespace

size_t TcpSender::send(int fd, SendQueue* queue, const TxFrame* frames, const std::vector<uint32_t>& burst,
                       int* error) {
  queued_ -= queue->size();
  size_t taken = send_now(fd, queue, frames, burst, error);
  if (*error == 0) taken += enqueue(queue, frames, burst.data() + taken, burst.size() - taken);
  queued_ += queue->size();
  return taken;
}

size_t TcpSender::send_now(int fd, SendQueue* queue, const TxFrame* frames, const std::vector<uint32_t>& burst,
                           int* error) {
  size_t taken = 0;
  while (queue->size() != 0 || taken < burst.size()) {
    const uint32_t* next = burst.data() + taken;
    size_t vectors = 0;
    const size_t total = gather(*queue, frames, next, burst.size() - taken, &vectors);
    const ssize_t sent = send_vectors(fd, vectors_.data(), vectors);
    if (sent < 0) {
      *error = errno;
      return taken;
    }
    if (sent != 0) taken += consume(static_cast<size_t>(sent), queue, frames, next);
    if (static_cast<size_t>(sent) != total) break;
  }
  return taken;
}

/// Points at the queue and the first frames, up to kFrames; returns how many bytes they are.
size_t TcpSender::gather(const SendQueue& queue, const TxFrame* frames, const uint32_t* burst, size_t count,
                         size_t* vectors) {
  size_t total = queue.size();
  if (total != 0) vectors_[(*vectors)++] = vector_of(queue.data(), total);
  for (size_t i = 0; i < std::min(kFrames, count); ++i) {
    const TxFrame& frame = frames[burst[i]];
    write_stream_prefix(frame.size + frame.rest_size, prefixes_[i]);
    vectors_[(*vectors)++] = vector_of(prefixes_[i], kStreamPrefixBytes);
    vectors_[(*vectors)++] = vector_of(frame.data, frame.size);
    if (frame.rest_size != 0) vectors_[(*vectors)++] = vector_of(frame.rest, frame.rest_size);
    total += bytes_of(frame);
  }
  return total;
}

/// `sent` bytes of what was gathered have left. The rest of a frame that was cut is queued. Returns how many frames
/// these bytes are.
size_t TcpSender::consume(size_t sent, SendQueue* queue, const TxFrame* frames, const uint32_t* burst) {
  const size_t queued = std::min(sent, queue->size());
  queue->drop(queued);
  sent -= queued;
  size_t begun = 0;
  while (sent != 0) {
    const TxFrame& frame = frames[burst[begun]];
    const size_t left = std::min(sent, bytes_of(frame));
    if (left < bytes_of(frame)) queue_rest(queue, prefixes_[begun], frame, left);  // [TCP-8]
    sent -= left;
    ++begun;
  }
  return begun;
}

size_t TcpSender::enqueue(SendQueue* queue, const TxFrame* frames, const uint32_t* burst, size_t count) {
  size_t taken = 0;
  for (; taken < count; ++taken) {
    const TxFrame& frame = frames[burst[taken]];
    const size_t filled = queue->size() + bytes_of(frame);
    if (filled > (queued_ + filled > all_bytes_ ? least_bytes_ : queue_bytes_)) break;  // [TCP-8]
    uint8_t prefix[kStreamPrefixBytes];
    write_stream_prefix(frame.size + frame.rest_size, prefix);
    queue_rest(queue, prefix, frame, 0);
  }
  return taken;
}

}  // namespace switchml
