#include "hand_over.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/processors.h"
#include "kernels/kernels.h"

namespace switchml::bench {

namespace {

constexpr size_t kChunk = 128 * 1024;
constexpr size_t kStaged = 16 * 1024;
constexpr uint64_t kSlots = 8;
constexpr uint64_t kChunks = 512;  // Chunks of a measurement.
constexpr int kRoundTrips = 20000;
constexpr int kMeasurements = 9;

void stay_on(int processor) {
  if (run_on({processor})) return;
  std::fprintf(stderr, "bench_memory: cannot run on processor %d\n", processor);
  std::exit(1);
}

struct alignas(128) Line {
  std::atomic<uint64_t> value{0};
  void await(uint64_t at_least) const {
    while (value.load(std::memory_order_acquire) < at_least) {
    }
  }
};

/// The time from the start of both threads to the end of both.
template <typename Here, typename There>
double seconds_of(const std::vector<int>& processors, const Here& here, const There& there) {
  std::array<Line, 2> present;
  Time begin{};
  std::thread other([&] {
    stay_on(processors[1]);
    present[1].value = 1;
    present[0].await(1);
    there();
  });
  std::thread one([&] {
    stay_on(processors[0]);
    present[0].value = 1;
    present[1].await(1);
    begin = monotonic_now();
    here();
  });
  one.join();
  other.join();
  return to_seconds(monotonic_now() - begin);
}

double round_trip_seconds(const std::vector<int>& processors) {
  std::array<Line, 2> lines;
  const auto turns = [&lines](size_t mine, uint64_t first) {
    for (uint64_t i = 0; i < kRoundTrips; ++i) {
      lines[1 - mine].await(i + first);
      lines[mine].value.store(i + 1, std::memory_order_release);
    }
  };
  return seconds_of(
             processors, [&] { turns(0, 0); }, [&] { turns(1, 1); }) /
         kRoundTrips;
}

void write(const uint8_t* from, uint8_t* to, bool past_caches) {
  alignas(64) std::array<uint8_t, kStaged> staged;
  for (size_t i = 0; i < kChunk; i += kStaged) {
    if (past_caches) {
      std::memcpy(staged.data(), from + i, kStaged);
      kernels().copy_non_temporal(staged.data(), to + i, kStaged);
    } else {
      std::memcpy(to + i, from + i, kStaged);
    }
  }
}

uint64_t sum_of(const uint8_t* chunk) {
  std::array<uint64_t, 64> words{};
  uint64_t sum = 0;
  for (size_t i = 0; i < kChunk; i += sizeof words) {
    std::memcpy(words.data(), chunk + i, sizeof words);
    for (const uint64_t word : words) sum += word;
  }
  return sum;
}

/// A tensor goes through eight slots to the other core, as an all-reduce's does.
double chunk_seconds(const std::vector<int>& processors, bool past_caches) {
  std::vector<uint8_t> tensor(kChunks * kChunk, 1);
  struct alignas(64) Slot {
    std::array<uint8_t, kChunk> bytes;
  };
  const auto slots = std::make_unique<Slot[]>(kSlots);
  Line written, read;
  std::atomic<uint64_t> sum{0};
  const double seconds = seconds_of(
      processors,
      [&] {
        for (uint64_t i = 0; i < kChunks; ++i) {
          if (i >= kSlots) read.await(i - kSlots + 1);
          write(&tensor[i * kChunk], slots[i % kSlots].bytes.data(), past_caches);
          written.value.store(i + 1, std::memory_order_release);
        }
      },
      [&] {
        for (uint64_t i = 0; i < kChunks; ++i) {
          written.await(i + 1);
          sum += sum_of(slots[i % kSlots].bytes.data());
          read.value.store(i + 1, std::memory_order_release);
        }
      });
  const uint64_t expected = kChunks * (kChunk / sizeof(uint64_t)) * 0x0101010101010101U;
  if (sum != expected) {
    std::fprintf(stderr, "bench_memory: what was read differs from what was written\n");
    std::exit(1);
  }
  return seconds / kChunks;
}

}  // namespace

std::optional<HandOver> measure_hand_over() {
  const std::vector<int> processors = allowed_processors();
  if (processors.size() < 2) return std::nullopt;
  HandOver all;
  for (int i = 0; i < kMeasurements; ++i) {
    all.round_trip_ns.push_back(1e9 * round_trip_seconds(processors));
    all.cached_us.push_back(1e6 * chunk_seconds(processors, false));
    all.past_caches_us.push_back(1e6 * chunk_seconds(processors, true));
  }
  for (auto* times : {&all.round_trip_ns, &all.cached_us, &all.past_caches_us}) std::sort(times->begin(), times->end());
  return all;
}

}  // namespace switchml::bench
