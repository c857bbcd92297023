// What the files of the mock device share about PyTorch.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstring>

#include "machine.h"

namespace mock_device {

inline Machine& machine() { return Machine::of_process(); }
inline StreamKey key(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }

c10::Allocator* allocator();
/// The current one of a device.
c10::Stream stream_of(c10::Device device);

/// Whether copies keep the pinned memory that they use until they are done, as CUDA's do; else its owner has to.
extern std::atomic<bool> keeps_pinned;
/// Gives a storage memory of that size; what it had so far goes along.
void resize(const c10::Storage& storage, size_t bytes);

}  // namespace mock_device
