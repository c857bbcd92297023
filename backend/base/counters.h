// Counters: every one has a name, a unit and a help text in one table, so that statistics, metrics and documentation
// agree.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace switchml {

// X(identifier, "unit", "help")
#define SWITCHML_WORKER_COUNTERS(X)                                                                                 \
  X(packets_sent, "packets", "contributions sent to the switch, repeats included")                                  \
  X(packets_received, "packets", "frames received from the switch, of any kind")                                    \
  X(bytes_sent, "bytes", "bytes of frames sent")                                                                    \
  X(bytes_received, "bytes", "bytes of frames received")                                                            \
  X(retransmissions, "packets", "contributions sent again that may have been lost")                                 \
  X(repeats_waiting, "packets", "contributions sent again that the switch had, while those of others were missing") \
  X(timeouts, "events", "retransmission timers that expired")                                                       \
  X(elements_summed_by_switch, "elements", "tensor elements whose result the switch computed")                      \
  X(elements_summed_in_memory, "elements", "tensor elements whose result came through memory of the host")          \
  X(bytes_moved_in_memory, "bytes", "bytes of each rank that came through memory of the host as they are")          \
  X(zero_blocks_left_out, "blocks", "blocks of 256 elements that contributions left out, all of them zero")         \
  X(bytes_written_in_place, "bytes", "bytes of results that others, or a card, wrote to this rank's tensors")       \
  X(chunks_completed, "chunks", "results accepted")                                                                 \
  X(results_duplicate, "packets", "results for a slot that was not waiting")                                        \
  X(results_stale, "packets", "results with another sequence number than awaited")                                  \
  X(results_foreign, "packets", "frames of another session")                                                        \
  X(results_malformed, "packets", "frames that are not well-formed results")                                        \
  X(results_damaged, "packets", "exact results whose checksum does not hold")                                       \
  X(witness_failures, "packets", "results that failed their witness")                                               \
  X(nonfinite_superblocks, "superblocks", "superblocks that held a NaN or an infinity")                             \
  X(window_reductions, "events", "times that the congestion window shrank")                                         \
  X(send_errors, "events", "sends that the kernel refused")

#define SWITCHML_SWITCH_COUNTERS(X)                                                        \
  X(packets_received, "packets", "frames received")                                        \
  X(packets_sent, "packets", "frames sent")                                                \
  X(bytes_received, "bytes", "bytes of frames received")                                   \
  X(bytes_sent, "bytes", "bytes of frames sent")                                           \
  X(contributions_added, "packets", "contributions added into a slot")                     \
  X(uses_started, "slots", "slots taken over by a new sequence number")                    \
  X(uses_completed, "slots", "slots that got every worker's contribution")                 \
  X(elements_added, "elements", "words added or compared")                                 \
  X(duplicates_answered, "packets", "duplicates on a complete slot, answered")             \
  X(duplicates_dropped, "packets", "duplicates that need no answer, dropped")              \
  X(results_passed_down, "packets", "results of a parent switch, sent on to the members")  \
  X(dropped_stale, "packets", "sequence number older than the slot's")                     \
  X(dropped_short, "packets", "shorter than a header")                                     \
  X(dropped_version, "packets", "another protocol version")                                \
  X(dropped_kind, "packets", "a kind that a switch does not take")                         \
  X(dropped_length, "packets", "payload of half a word or element, or above the job's")    \
  X(dropped_checksum, "packets", "damaged: the checksum of an exact packet does not hold") \
  X(dropped_session, "packets", "no such job or another epoch")                            \
  X(dropped_worker, "packets", "worker number out of range or not joined")                 \
  X(dropped_source, "packets", "source address is not the member's")                       \
  X(dropped_slot, "packets", "slot outside the job's range, or of another shard")          \
  X(dropped_operation, "packets", "an operation that does not exist")                      \
  X(dropped_seq, "packets", "sequence number 0")                                           \
  X(dropped_plain, "packets", "not sealed, over a link that is sealed")                    \
  X(dropped_forged, "packets", "sealed under another key, or altered")                     \
  X(dropped_replayed, "packets", "sealed packets that had come before")                    \
  X(control_requests, "packets", "control requests answered")                              \
  X(control_malformed, "packets", "control requests dropped")                              \
  X(sessions_opened, "sessions", "sessions opened")                                        \
  X(sessions_closed, "sessions", "sessions closed by their members")                       \
  X(sessions_expired, "sessions", "sessions whose lease ran out")

/// A value and what it means.
struct CounterInfo {
  const char* name;
  const char* unit;
  const char* help;
};

/// One writer, any number of readers: plain additions on the packet path, no locked instruction.
class Counter {
 public:
  Counter() = default;
  /// Copies the count of that moment.
  Counter(const Counter& other) : value_(other.get()) {}
  Counter& operator=(const Counter&) = delete;
  void add(uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

#define SWITCHML_COUNTER_FIELD(id, unit, help) Counter id;
#define SWITCHML_COUNTER_INFO(id, unit, help) CounterInfo{#id, unit, help},
#define SWITCHML_COUNTER_ADD(id, unit, help) id.add(other.id.get());
#define SWITCHML_COUNTER_VISIT(id, unit, help) visit(CounterInfo{#id, unit, help}, id.get());

/// Counters of one shard of a worker. Written by the shard's thread, readable by any.
struct WorkerCounters {
  SWITCHML_WORKER_COUNTERS(SWITCHML_COUNTER_FIELD)
  /// visit(CounterInfo, uint64_t value) for each.
  template <typename F>
  void for_each(F&& visit) const {
    SWITCHML_WORKER_COUNTERS(SWITCHML_COUNTER_VISIT)
  }
};

/// Counters of one part of a switch, which one thread at a time drives, or the sum of several.
struct SwitchCounters {
  SWITCHML_SWITCH_COUNTERS(SWITCHML_COUNTER_FIELD)
  void add(const SwitchCounters& other) { SWITCHML_SWITCH_COUNTERS(SWITCHML_COUNTER_ADD) }
  template <typename F>
  void for_each(F&& visit) const {
    SWITCHML_SWITCH_COUNTERS(SWITCHML_COUNTER_VISIT)
  }
};

}  // namespace switchml
