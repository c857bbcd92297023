// An accelerator in software, for tests: memory that the host cannot touch, and streams that run on a thread of the
// device's own, when a seed says so. Free of torch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>

namespace mock_device {

constexpr int kDevices = 2;
constexpr int kPoolStreams = 8;

/// Device, number: 0 is the default stream.
using StreamKey = std::pair<int, int64_t>;

/// A point that a stream has passed or not. Guarded by Machine's mutex.
struct Mark {
  bool passed = false;
  std::chrono::steady_clock::time_point at{};
};
using MarkPtr = std::shared_ptr<Mark>;

/// One for each process, never destroyed. Thread-safe.
class Machine {
 public:
  static Machine& of_process();

  /// Which streams are slow from now on, and by how much each task; 0: none, and freed memory keeps what it has.
  void seed(uint64_t seed);
  /// From now on each copy takes its stream as long as so many bytes a second take, without work for the host's
  /// processors, as those of a device do; 0: as long as it takes.
  void set_copy_rate(double bytes_per_second);
  std::chrono::microseconds copy_time(size_t bytes);

  // ---- memory ----

  /// Of the device: a host that touches it dies. Belongs to the stream.
  void* allocate(StreamKey stream, size_t bytes);
  /// Memory that the device reaches asynchronously.
  void* allocate_pinned(size_t bytes);
  /// When all that its streams have been given so far is done it is filled with 0xff, and later reused.
  void free(void* data);
  /// The stream uses it too.
  void use(void* data, StreamKey stream);
  /// Where the device's tasks find what is at a host's address.
  static char* reached(const void* data);
  static bool is_of_device(const void* data);
  bool is_pinned(const void* data);
  /// In use now, ever given out, and in use at most.
  struct Pinned {
    size_t now;
    size_t ever;
    size_t most;
  };
  Pinned pinned_bytes();

  // ---- streams and events ----

  void enqueue(StreamKey stream, std::function<void()> task, std::chrono::microseconds least = {});
  MarkPtr record(StreamKey stream);
  void block(StreamKey stream, const MarkPtr& mark);
  bool is_idle(StreamKey stream);
  bool has_passed(const MarkPtr& mark);
  void wait(const MarkPtr& mark);
  void synchronize(StreamKey stream) { wait(record(stream)); }
  /// What comes after in the stream waits for let_go().
  void hold(StreamKey stream);
  void let_go();
  void synchronize_device(int device);

 private:
  struct Item {
    std::function<void()> run;  // Null for marks.
    MarkPtr passes;
    MarkPtr waits_for;
    std::chrono::microseconds delay{0};
  };
  struct Stream {
    std::deque<Item> items;
    std::chrono::steady_clock::time_point free_since{};  // When the item at the front came there.
  };
  struct Block {
    size_t bytes = 0;
    bool pinned = false;
    std::set<StreamKey> streams;
  };

  Machine();
  void serve();
  void add(StreamKey stream, Item item);
  std::chrono::microseconds delay_of(StreamKey stream);
  void* take(size_t bytes, bool pinned, int device);
  Block* block_of(const void* data);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<StreamKey, Stream> streams_;
  std::map<const char*, Block> blocks_;
  std::map<std::pair<int, size_t>, std::deque<char*>> idle_;  // By device (-1: pinned) and size.
  char* next_[kDevices];
  int64_t freed_ = 0;  // Blocks.
  size_t pinned_now_ = 0;
  size_t pinned_ever_ = 0;
  size_t pinned_most_ = 0;
  uint64_t seed_ = 0;
  double copy_rate_ = 0;
  std::mt19937_64 random_;
  MarkPtr held_ = std::make_shared<Mark>();
};

}  // namespace mock_device
