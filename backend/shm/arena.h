// Memory for tensors that all ranks of a host see: each rank has a part of the group's segment to allocate from. What
// lies there other ranks read, and write, where it is. So do cards, where each host has one rank.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "shm/board.h"
#include "shm/segment.h"
#include "transport/transport.h"

namespace switchml::shm {

/// The size of a segment that holds a board of this shape, the ranks' mail, and parts of so many bytes for each rank.
/// `arena_bytes` is rounded up to whole pages; 0: there are no parts.
size_t segment_bytes(const BoardShape& shape, size_t arena_bytes);

/// Keeps its segment. Thread-safe.
class Arena : public TensorMemory {
 public:
  /// This rank's; null where the segment has no such parts.
  static std::shared_ptr<Arena> open(std::shared_ptr<const Segment> segment, const BoardShape& shape, int rank);

  /// All of a segment, without a board, that no other rank sees.
  static std::shared_ptr<Arena> open(std::shared_ptr<const Segment> segment);

  /// Whole pages, which stay until release(); null where there is no room, or this process is a child of the one that
  /// opened it. A child that is forked meanwhile has the same memory, as of tensors that PyTorch shares.
  void* allocate(size_t bytes);
  /// What allocate() gave; null is nothing. The memory is kept for the next.
  void release(void* data);
  /// Nothing is allocated any more: the group is gone. What has been allocated stays.
  void close();

  /// Where so many bytes are in the segment, for all ranks; 0: not in this rank's part, or not all of them. Of no bytes
  /// too.
  uint64_t offset_of(const void* data, size_t bytes) const;
  /// What allocate() gave and these bytes lie in.
  Extent extent_of(const void* data, size_t bytes) const override;
  /// Takes these bytes, with their contents and the rest of their pages, out of what other ranks see. Something that
  /// another rank may still write is this rank's own again then. What another thread of this process writes to these
  /// pages meanwhile may be lost.
  void isolate(uint64_t offset, size_t bytes);

  /// Bytes of all allocations; at most capacity().
  size_t used() const;
  size_t capacity() const { return bytes_; }

 private:
  Arena(std::shared_ptr<const Segment> segment, size_t begin, size_t bytes);
  bool is_here() const;
  /// Whether these bytes, at least one, are all in it.
  bool contains(const void* data, size_t bytes) const;
  bool populate(size_t end);
  void add_free(size_t begin, size_t size);
  void drop_free(size_t begin, size_t size);

  const std::shared_ptr<const Segment> segment_;
  uint8_t* const data_;
  const size_t bytes_;
  const pid_t process_;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;                // begin (bytes from data_) -> size; no two are adjacent
  std::set<std::pair<size_t, size_t>> by_size_;  // free_, as (size, begin)
  std::map<size_t, size_t> used_;                // begin -> size
  size_t used_bytes_ = 0;
  size_t populated_ = 0;  // bytes from data_ that have memory
  bool closed_ = false;
};

}  // namespace switchml::shm
