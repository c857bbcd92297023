#include "machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mock_device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBytesPerDevice = size_t{2} << 30;
constexpr size_t kLeast = 512;
/// Blocks of a size that rest after they were freed, while what uses them by mistake finds 0xff there.
constexpr size_t kResting = 2;
/// The device of streams that each see to a block that was freed.
constexpr int kJanitors = -1;

/// The same memory twice: as the host has it, and as the device does.
struct Memory {
  char* forbidden;
  char* usable;
};

Memory map_memory() {
  const int file = memfd_create("mock_device", MFD_CLOEXEC);
  constexpr size_t kBytes = kBytesPerDevice * kDevices;
  if (file < 0 || ftruncate(file, kBytes) != 0) throw std::runtime_error("mock device: no memory file");
  void* forbidden = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0);
  void* usable = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (forbidden == MAP_FAILED || usable == MAP_FAILED) throw std::runtime_error("mock device: no address space");
  return {static_cast<char*>(forbidden), static_cast<char*>(usable)};
}

const Memory& memory() {
  static const Memory mapped = map_memory();
  return mapped;
}

size_t rounded(size_t bytes) {
  size_t size = kLeast;
  while (size < bytes) size *= 2;
  return size;
}

}  // namespace

Machine& Machine::of_process() {
  static auto* machine = new Machine();  // Its thread goes on to the end of the process.
  return *machine;
}

Machine::Machine() {
  for (int device = 0; device < kDevices; ++device) {
    next_[device] = memory().forbidden + static_cast<size_t>(device) * kBytesPerDevice;
  }
  std::thread([this] { serve(); }).detach();
}

void Machine::seed(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seed_ = seed;
  random_.seed(seed);
}

void Machine::set_copy_rate(double bytes_per_second) {
  const std::lock_guard<std::mutex> lock(mutex_);
  copy_rate_ = bytes_per_second;
}

std::chrono::microseconds Machine::copy_time(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::chrono::microseconds(copy_rate_ > 0 ? static_cast<int64_t>(1e6 * bytes / copy_rate_) : 0);
}

// ---- memory ----

char* Machine::reached(const void* data) {
  const auto* at = static_cast<const char*>(data);
  return is_of_device(data) ? memory().usable + (at - memory().forbidden) : const_cast<char*>(at);
}

bool Machine::is_of_device(const void* data) {
  const auto* at = static_cast<const char*>(data);
  return at >= memory().forbidden && at < memory().forbidden + kBytesPerDevice * kDevices;
}

void* Machine::take(size_t bytes, bool pinned, int device) {
  std::deque<char*>& idle = idle_[{pinned ? -1 : device, bytes}];
  if (idle.size() > kResting) {
    char* data = idle.front();
    idle.pop_front();
    return data;
  }
  if (pinned) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    return data;
  }
  char* data = next_[device];
  const char* end = memory().forbidden + static_cast<size_t>(device + 1) * kBytesPerDevice;
  if (static_cast<size_t>(end - data) < bytes) throw std::runtime_error("mock device: out of memory");
  next_[device] += bytes;
  return data;
}

void* Machine::allocate(StreamKey stream, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  void* data = take(rounded(bytes), false, stream.first);
  blocks_[static_cast<char*>(data)] = {rounded(bytes), false, {stream}};
  return data;
}

void* Machine::allocate_pinned(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  void* data = take(rounded(bytes), true, -1);
  blocks_[static_cast<char*>(data)] = {rounded(bytes), true, {}};
  pinned_now_ += rounded(bytes);
  pinned_ever_ += rounded(bytes);
  pinned_most_ = std::max(pinned_most_, pinned_now_);
  return data;
}

void Machine::free(void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(static_cast<char*>(data));
  if (found == blocks_.end()) return;
  const Block block = found->second;
  blocks_.erase(found);
  const StreamKey janitor{kJanitors, freed_++};
  for (const StreamKey& stream : block.streams) {
    const auto mark = std::make_shared<Mark>();
    add(stream, {nullptr, mark, nullptr});
    add(janitor, {nullptr, nullptr, mark});
  }
  auto* at = static_cast<char*>(data);
  const int device = block.pinned ? -1 : static_cast<int>((at - memory().forbidden) / kBytesPerDevice);
  if (block.pinned) pinned_now_ -= block.bytes;
  const auto bury = [this, at, block, device, fills = seed_ != 0] {
    if (fills) std::memset(reached(at), 0xff, block.bytes);
    const std::lock_guard<std::mutex> held(mutex_);
    idle_[{device, block.bytes}].push_back(at);
  };
  add(janitor, {bury, nullptr, nullptr});
}

Machine::Block* Machine::block_of(const void* data) {
  const auto* at = static_cast<const char*>(data);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &next->second : nullptr;
}

void Machine::use(void* data, StreamKey stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Block* block = block_of(data)) block->streams.insert(stream);
}

bool Machine::is_pinned(const void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Block* block = block_of(data);
  return block != nullptr && block->pinned;
}

Machine::Pinned Machine::pinned_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {pinned_now_, pinned_ever_, pinned_most_};
}

// ---- streams and events ----

/// Every second stream is slow.
std::chrono::microseconds Machine::delay_of(StreamKey stream) {
  if (seed_ == 0) return {};
  std::seed_seq mixed{static_cast<uint32_t>(seed_), static_cast<uint32_t>(stream.first),
                      static_cast<uint32_t>(stream.second)};
  const bool is_slow = std::mt19937(mixed)() % 2 == 0;
  return std::chrono::microseconds(is_slow ? random_() % 4000 : 0);
}

void Machine::add(StreamKey stream, Item item) {
  Stream& to = streams_[stream];
  if (to.items.empty()) to.free_since = Clock::now();
  to.items.push_back(std::move(item));
  changed_.notify_all();
}

void Machine::enqueue(StreamKey stream, std::function<void()> task, std::chrono::microseconds least) {
  const std::lock_guard<std::mutex> lock(mutex_);
  add(stream, {std::move(task), nullptr, nullptr, std::max(least, delay_of(stream))});
}

MarkPtr Machine::record(StreamKey stream) {
  const auto mark = std::make_shared<Mark>();
  const std::lock_guard<std::mutex> lock(mutex_);
  add(stream, {nullptr, mark, nullptr});
  return mark;
}

void Machine::block(StreamKey stream, const MarkPtr& mark) {
  const std::lock_guard<std::mutex> lock(mutex_);
  add(stream, {nullptr, nullptr, mark});
}

bool Machine::is_idle(StreamKey stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return streams_[stream].items.empty();
}

bool Machine::has_passed(const MarkPtr& mark) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return mark->passed;
}

void Machine::wait(const MarkPtr& mark) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return mark->passed; });
}

void Machine::hold(StreamKey stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  add(stream, {nullptr, nullptr, held_});
}

void Machine::let_go() {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_->passed = true;
  held_ = std::make_shared<Mark>();
  changed_.notify_all();
}

void Machine::synchronize_device(int device) {
  std::vector<MarkPtr> marks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [key, stream] : streams_) {
      if (key.first != device) continue;
      marks.push_back(std::make_shared<Mark>());
      add(key, {nullptr, marks.back(), nullptr});
    }
  }
  for (const MarkPtr& mark : marks) wait(mark);
}

/// The device: whatever is first in its stream and may run does, in an order of the seed's.
void Machine::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const Clock::time_point now = Clock::now();
    Clock::time_point soonest = now + std::chrono::seconds(1);
    std::vector<std::map<StreamKey, Stream>::iterator> able;
    for (auto stream = streams_.begin(); stream != streams_.end(); ++stream) {
      if (stream->second.items.empty()) continue;
      const Item& first = stream->second.items.front();
      if (first.waits_for && !first.waits_for->passed) continue;
      const Clock::time_point due = stream->second.free_since + first.delay;
      if (due <= now) able.push_back(stream);
      soonest = std::min(soonest, due);
    }
    if (able.empty()) {
      changed_.wait_until(lock, soonest);
      continue;
    }
    const auto at = able[random_() % able.size()];
    Stream& chosen = at->second;
    const Item item = chosen.items.front();  // It stays there until it is done.
    if (item.run) {
      lock.unlock();
      item.run();
      lock.lock();
    }
    chosen.items.pop_front();
    chosen.free_since = Clock::now();
    if (item.passes) {
      item.passes->passed = true;
      item.passes->at = chosen.free_since;
    }
    if (at->first.first == kJanitors && chosen.items.empty()) streams_.erase(at);
    changed_.notify_all();
  }
}

}  // namespace mock_device
