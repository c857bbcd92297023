// Memory that the ranks of one host share. It has no name that could be left behind: a descriptor is handed over, and
// the kernel frees the memory with the last process that maps it, however that ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "socket/fd.h"

namespace switchml::shm {

/// This machine's page size.
size_t page_bytes();
/// Rounded up to whole pages.
size_t in_pages(size_t bytes);

/// Gives these bytes of a mapping, and the rest of their pages, memory to write to: what is touched without that where
/// memory is missing ends the process by a signal. Ok where the kernel cannot (before Linux 5.14): then nothing is.
Status populate(const void* data, size_t bytes);

/// Whether the kernel can; else a segment has all of its memory from the beginning.
bool can_populate();

/// A mapping of the whole segment. Movable; the mapping stays where it is.
class Segment {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 44;
  /// Zeroed, of a size that cannot be changed afterwards, and inherited by no other program. Call populate() before
  /// using a piece of it: until then it takes no memory.
  static Result<Segment> create(size_t bytes);
  /// Maps what another process has created: `fd` must be such a segment of just this size.
  static Result<Segment> adopt(Fd fd, size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  /// A descriptor to hand over; it stays the segment's. -1 after forget_fd().
  int fd() const { return fd_.get(); }
  /// The mapping is all that is needed from now on.
  void forget_fd() { fd_ = Fd(); }

 private:
  Segment(Fd fd, uint8_t* data, size_t size) : fd_(std::move(fd)), data_(data), size_(size) {}
  static Result<Segment> map(Fd fd, size_t bytes);

  Fd fd_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace switchml::shm
