// Which way each call of a process group went. Free of torch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace switchml {

/// The collectives by the names that people call them in torch.distributed.
enum class Call : uint8_t {
  kAllReduce,
  kAllReduceCoalesced,
  kAllReduceSparse,
  kReduce,
  kReduceScatter,
  kReduceScatterTensor,
  kReduceScatterTensorCoalesced,
  kBarrier,
  kMonitoredBarrier,
  kBroadcast,
  kAllGather,
  kAllGatherIntoTensor,
  kAllGatherCoalesced,
  kAllGatherIntoTensorCoalesced,
  kGather,
  kScatter,
  kAllToAll,
  kAllToAllSingle,
  kSend,
  kRecv,
  kRecvAnySource,
};
inline constexpr size_t kCalls = 21;
/// "all_reduce".
const char* to_string(Call call);
/// "switchml:all_reduce", the name of a call in a profile. A string of static lifetime.
const char* profiling_title(Call call);

/// Through the switch, through the Gloo group, through the key-value store, or without any network (groups of
/// one).
enum class Path : uint8_t { kSwitch, kGloo, kStore, kLocal };
inline constexpr size_t kPaths = 4;
inline constexpr std::array<Path, kPaths> kAllPaths = {Path::kSwitch, Path::kGloo, Path::kStore, Path::kLocal};
const char* to_string(Path path);

/// Thread-safe.
class CallTable {
 public:
  void add(Call call, Path path) { at(call, path).fetch_add(1, std::memory_order_relaxed); }
  uint64_t get(Call call, Path path) const {
    return counts_[static_cast<size_t>(call)][static_cast<size_t>(path)].load(std::memory_order_relaxed);
  }
  uint64_t total(Path path) const;

 private:
  std::atomic<uint64_t>& at(Call call, Path path) {
    return counts_[static_cast<size_t>(call)][static_cast<size_t>(path)];
  }
  std::array<std::array<std::atomic<uint64_t>, kPaths>, kCalls> counts_{};
};

}  // namespace switchml
