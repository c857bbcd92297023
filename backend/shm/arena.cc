#include "shm/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

#include "base/assert.h"
#include "base/log.h"
#include "shm/mail.h"

namespace switchml::shm {

size_t segment_bytes(const BoardShape& shape, size_t arena_bytes) {
  return mail_begin(shape) + mail_bytes(shape) + static_cast<size_t>(shape.ranks) * in_pages(arena_bytes);
}

std::shared_ptr<Arena> Arena::open(std::shared_ptr<const Segment> segment, const BoardShape& shape, int rank) {
  const size_t first = mail_begin(shape) + mail_bytes(shape);
  if (segment->size() <= first) return nullptr;
  const size_t bytes = (segment->size() - first) / static_cast<size_t>(shape.ranks);
  return std::shared_ptr<Arena>(new Arena(std::move(segment), first + static_cast<size_t>(rank) * bytes, bytes));
}

std::shared_ptr<Arena> Arena::open(std::shared_ptr<const Segment> segment) {
  const size_t bytes = segment->size();
  return std::shared_ptr<Arena>(new Arena(std::move(segment), 0, bytes));
}

Arena::Arena(std::shared_ptr<const Segment> segment, size_t begin, size_t bytes)
    : segment_(std::move(segment)), data_(segment_->data() + begin), bytes_(bytes), process_(::getpid()) {
  add_free(0, bytes_);
}

bool Arena::is_here() const { return ::getpid() == process_; }

// ---- free pages: the smallest run that is large enough, so that large ones last ----

void* Arena::allocate(size_t bytes) {
  if (bytes == 0 || bytes > bytes_ || !is_here()) return nullptr;
  const size_t size = in_pages(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto best = by_size_.lower_bound({size, 0});
  if (closed_ || best == by_size_.end()) return nullptr;
  const auto [room, begin] = *best;
  if (!populate(begin + size)) return nullptr;
  drop_free(begin, room);
  if (room > size) add_free(begin + size, room - size);
  used_.emplace(begin, size);
  used_bytes_ += size;
  ::madvise(data_ + begin, size, MADV_DOFORK);
  ::madvise(data_ + begin, size, MADV_DODUMP);
  return data_ + begin;
}

void Arena::release(void* data) {
  if (data == nullptr || !is_here()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto begin = static_cast<size_t>(static_cast<uint8_t*>(data) - data_);
  const auto found = used_.find(begin);
  SWITCHML_ASSERT(found != used_.end());
  size_t size = found->second;
  used_.erase(found);
  used_bytes_ -= size;
  ::madvise(data, size, MADV_DONTFORK);
  ::madvise(data, size, MADV_DONTDUMP);
  const auto next = free_.find(begin + size);
  if (next != free_.end()) {
    const size_t more = next->second;
    drop_free(begin + size, more);
    size += more;
  }
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.begin()) {
    const auto [before, room] = *std::prev(behind);
    if (before + room == begin) {
      drop_free(before, room);
      begin = before;
      size += room;
    }
  }
  add_free(begin, size);
}

void Arena::add_free(size_t begin, size_t size) {
  free_.emplace(begin, size);
  by_size_.emplace(size, begin);
}

void Arena::drop_free(size_t begin, size_t size) {
  free_.erase(begin);
  by_size_.erase({size, begin});
}

bool Arena::populate(size_t end) {
  if (end <= populated_) return true;
  const Status status = shm::populate(data_ + populated_, end - populated_);
  if (status.ok()) {
    populated_ = end;
  } else {
    SWITCHML_LOG(kInfo) << "tensors for all ranks of this host: " << status.message();
  }
  return status.ok();
}

void Arena::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
}

size_t Arena::used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_bytes_;
}

// ---- what others see ----

bool Arena::contains(const void* data, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(data);
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  return bytes > 0 && bytes <= bytes_ && at >= begin && at - begin <= bytes_ - bytes;
}

uint64_t Arena::offset_of(const void* data, size_t bytes) const {
  if (!contains(data, bytes)) return 0;
  return reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(segment_->data());
}

TensorMemory::Extent Arena::extent_of(const void* data, size_t bytes) const {
  if (!contains(data, bytes)) return {};
  const auto begin = static_cast<size_t>(static_cast<const uint8_t*>(data) - data_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto next = used_.upper_bound(begin);
  if (next == used_.begin()) return {};
  const auto [first, size] = *std::prev(next);
  if (begin + bytes > first + size) return {};
  return {data_ + first, size};
}

void Arena::isolate(uint64_t offset, size_t bytes) {
  const size_t before = static_cast<size_t>(offset) % page_bytes();
  uint8_t* const first = segment_->data() + offset - before;
  SWITCHML_ASSERT(bytes > 0 && offset_of(first, before + bytes) != 0);
  const size_t size = in_pages(before + bytes);
  // Moved there, so that this rank's other threads read nothing else meanwhile.
  void* const own = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own != MAP_FAILED) {
    std::memcpy(own, first, size);
    if (::mremap(own, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, first) != MAP_FAILED) return;
    ::munmap(own, size);
  }
  SWITCHML_LOG(kWarning) << "tensors of a call that failed could not be taken from other ranks of this host";
}

}  // namespace switchml::shm
