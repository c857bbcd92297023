#include "c10d/shared_tensors.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace switchml {

namespace {

/// What one allocation keeps.
struct Held {
  std::shared_ptr<shm::Arena> arena;
  void* data;
  static void release(void* held) {
    const std::unique_ptr<Held> self(static_cast<Held*>(held));
    self->arena->release(self->data);
  }
};

class SharedAllocator final : public c10::Allocator {
 public:
  explicit SharedAllocator(const std::shared_ptr<shm::Arena>& arena) : arena_(arena) {}
  // One of the two overrides: PyTorch has dropped the const.
  c10::DataPtr allocate(size_t bytes) { return give(bytes); }
  c10::DataPtr allocate(size_t bytes) const { return give(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  bool is_of(const std::shared_ptr<shm::Arena>& arena) const { return arena_.lock() == arena; }

 private:
  c10::DataPtr give(size_t bytes) const {
    std::shared_ptr<shm::Arena> arena = arena_.lock();
    void* const data = arena == nullptr ? nullptr : arena->allocate(bytes);
    if (data == nullptr) return c10::GetAllocator(c10::kCPU)->allocate(bytes);
    return {data, new Held{std::move(arena), data}, &Held::release, c10::Device(c10::kCPU)};
  }
  const std::weak_ptr<shm::Arena> arena_;
};

/// For ever: a tensor without memory, which may be given some again, knows its allocator only by address.
SharedAllocator& allocator_of(const std::shared_ptr<shm::Arena>& arena) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::deque<SharedAllocator>;
  const std::lock_guard<std::mutex> lock(*mutex);
  for (auto one = all->rbegin(); one != all->rend(); ++one) {
    if (one->is_of(arena)) return *one;
  }
  return all->emplace_back(arena);
}

}  // namespace

std::shared_ptr<c10::Allocator> shared_allocator(const std::shared_ptr<shm::Arena>& arena) {
  return {&allocator_of(arena), [](c10::Allocator*) {}};
}

at::Tensor shared_empty(const std::shared_ptr<shm::Arena>& arena, int64_t size, const at::TensorOptions& options) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (arena == nullptr || size <= 0 || !options.device().is_cpu()) return at::empty({size}, options);
  SharedAllocator& allocator = allocator_of(arena);
  const size_t bytes = static_cast<size_t>(size) * options.dtype().itemsize();
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, allocator.allocate(bytes), &allocator, true);
  return at::empty({0}, options).set_(storage, 0, {size}, {1});
}

at::Tensor bucket_empty(const std::shared_ptr<shm::Arena>& arena, int64_t size, const at::TensorOptions& options) {
  const at::Tensor bucket = shared_empty(arena, size, options);
  return bucket.is_complex() ? at::view_as_real(bucket).flatten() : bucket;
}

}  // namespace switchml
