// Which way each call of a process group went. Free of torch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/engine.h"

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
const Title& title_of(Call call);
inline const char* to_string(Call call) { return title_of(call).text(); }
/// "switchml:all_reduce", the name of a call in a profile. A string of static lifetime.
const char* profiling_title(Call call);

/// Through the switch, in memory that all ranks share, over connections between the ranks that send and receive,
/// through the key-value store, or without any other rank (groups of one).
enum class Way : uint8_t { kSwitch, kMemory, kPeers, kStore, kLocal };
inline constexpr size_t kWays = 5;
inline constexpr std::array<Way, kWays> kAllWays = {Way::kSwitch, Way::kMemory, Way::kPeers, Way::kStore, Way::kLocal};
const char* to_string(Way way);

/// Thread-safe.
class CallTable {
 public:
  void add(Call call, Way way) { at(call, way).fetch_add(1, std::memory_order_relaxed); }
  uint64_t get(Call call, Way way) const {
    return counts_[static_cast<size_t>(call)][static_cast<size_t>(way)].load(std::memory_order_relaxed);
  }
  uint64_t total(Way way) const;

 private:
  std::atomic<uint64_t>& at(Call call, Way way) { return counts_[static_cast<size_t>(call)][static_cast<size_t>(way)]; }
  std::array<std::array<std::atomic<uint64_t>, kWays>, kCalls> counts_{};
};

}  // namespace switchml
