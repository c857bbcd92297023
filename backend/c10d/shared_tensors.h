// Tensors in memory that all ranks of a host see (shm/arena.h): collectives read and write them where they are.
#pragma once

#include <memory>

#include "c10d/compat.h"
#include "shm/arena.h"

namespace switchml {

/// A new tensor of `size` elements, uninitialised, which keeps the arena and can be resized; in ordinary memory where
/// the arena is null or has no room, and where `options` name another device than the CPU. Thread-safe.
at::Tensor shared_empty(const std::shared_ptr<shm::Arena>& arena, int64_t size, const at::TensorOptions& options);

/// The same as DDP's Reducer takes a bucket, which is the one caller in PyTorch of a backend's allocateTensor(): of a
/// complex type it has the real and imaginary parts, one after the other, as the Reducer makes of its own buckets.
at::Tensor bucket_empty(const std::shared_ptr<shm::Arena>& arena, int64_t size, const at::TensorOptions& options);

/// What allocates such memory, or ordinary one where the arena has no room or is gone. It lives as long as the process,
/// and does not keep the arena. Thread-safe.
std::shared_ptr<c10::Allocator> shared_allocator(const std::shared_ptr<shm::Arena>& arena);

}  // namespace switchml
