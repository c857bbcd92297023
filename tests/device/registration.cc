// The mock device as PyTorch's PrivateUse1: guard, streams, events, memory.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <vector>

#include "device.h"

namespace mock_device {
namespace {

thread_local int current_device = 0;
thread_local int64_t current_stream[kDevices] = {};
std::atomic<bool> captures{false};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {static_type, static_cast<c10::DeviceIndex>(current_device)}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "mock device: there is no device ", device.index());
    if (device.index() >= 0) current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream stream(c10::Device device, int64_t id) const {
    if (device.index() < 0) device = getDevice();
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream(device, current_stream[stream(device, 0).device_index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*isHighPriority*/ = false) const override {
    static std::atomic<int64_t> next{0};
    return stream(device, 1 + next++ % kPoolStreams);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/ = 0) const override {
    return getStreamFromGlobalPool(device);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::Stream before = getStream(to.device());
    current_stream[to.device_index()] = to.id();
    return before;
  }
  bool isStreamCapturing(const c10::Stream& /*stream*/) const override { return captures; }
  bool queryStream(const c10::Stream& stream) const override { return machine().is_idle(key(stream)); }
  void synchronizeStream(const c10::Stream& stream) const override { machine().synchronize(key(stream)); }
  void synchronizeDevice(c10::DeviceIndex device) const override { machine().synchronize_device(device); }

  // An event is the mark that it was last recorded as.
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<MarkPtr*>(event);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new MarkPtr();
    *static_cast<MarkPtr*>(*event) = machine().record(key(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) machine().block(key(stream), *static_cast<MarkPtr*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || machine().has_passed(*static_cast<MarkPtr*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) machine().wait(*static_cast<MarkPtr*>(event));
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex /*index*/) const override {
    const std::chrono::duration<double, std::milli> between =
        (*static_cast<MarkPtr*>(second))->at - (*static_cast<MarkPtr*>(first))->at;
    return between.count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    machine().use(data.get(), key(stream));
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

void free_block(void* data) { machine().free(data); }

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Stream stream = Guard().getStream(Guard().getDevice());
    if (bytes == 0) return {nullptr, nullptr, &free_block, stream.device()};
    void* data = machine().allocate(key(stream), bytes);
    return {data, data, &free_block, stream.device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const StreamKey stream = key(Guard().getStream(Guard().getDevice()));
    machine().enqueue(stream, [=] { std::memcpy(Machine::reached(to), Machine::reached(from), bytes); });
  }
};

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, c10::DeviceType::CPU};
    void* data = machine().allocate_pinned(bytes);
    return {data, data, &free_block, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool record_event(void* data, void* /*context*/, c10::Stream stream) override {
    machine().use(data, key(stream));
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

DeviceAllocator device_allocator;
PinnedAllocator pinned_allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator);
REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &pinned_allocator);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device = index; }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return Guard().exchangeDevice({c10::DeviceType::PrivateUse1, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  bool isPinnedPtr(const void* data) const override { return machine().is_pinned(data); }
  c10::Device getDeviceFromPtr(void* /*data*/) const override { return Guard().getDevice(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override { resize(storage, bytes); }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace

std::atomic<bool> keeps_pinned{false};

c10::Allocator* allocator() { return &device_allocator; }

c10::Stream stream_of(c10::Device device) { return Guard().getStream(device); }

}  // namespace mock_device

TORCH_LIBRARY(mock_device, m) {
  m.def("seed", [](int64_t seed) { mock_device::machine().seed(static_cast<uint64_t>(seed)); });
  m.def("capture", [](bool on) { mock_device::captures = on; });
  m.def("keep_pinned", [](bool on) { mock_device::keeps_pinned = on; });
  m.def("copy_rate", [](double rate) { mock_device::machine().set_copy_rate(rate); });
  m.def("hold", [](int64_t device) {
    const c10::Device place(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
    mock_device::machine().hold(mock_device::key(mock_device::stream_of(place)));
  });
  m.def("let_go", [] { mock_device::machine().let_go(); });
  m.def("pinned_bytes", [] {
    const mock_device::Machine::Pinned pinned = mock_device::machine().pinned_bytes();
    return std::vector<int64_t>{static_cast<int64_t>(pinned.now), static_cast<int64_t>(pinned.ever),
                                static_cast<int64_t>(pinned.most)};
  });
}
