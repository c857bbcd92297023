// The last calls of this process with sizes and states, which explain a hang: what PyTorch's flight recorder keeps
// of its own backends. Its recorder is out of reach for others, so python/switchml adds these to its dumps. Free of
// torch.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "c10d/call_table.h"
#include "live/live_page.h"

namespace switchml {

/// Shapes and element types of a list of tensors; few of them take no allocation. Types are strings of static lifetime.
class TensorShapes {
 public:
  void add(const char* type, const int64_t* sizes, size_t dimensions);
  std::vector<std::vector<int64_t>> sizes() const;
  std::vector<const char*> types() const;

 private:
  union Word {  // Of each tensor there are its type, its number of dimensions, and its sizes.
    const char* type;
    int64_t number;
  };
  void add(Word word);
  template <typename See>
  void for_each(const See& see) const;

  std::array<Word, 8> few_;
  std::vector<Word> many_;  // All words, where they are more than that.
  size_t length_ = 0;
};

/// Messages that arrive in the order in which they are sent.
struct MessageStream {
  int source = 0;  // -1: not known yet
  int destination = 0;
  int tag = 0;

  bool operator<(const MessageStream& other) const {
    return std::tie(source, destination, tag) < std::tie(other.source, other.destination, other.tag);
  }
};

/// One call.
struct FlightEntry {
  uint64_t group = 0;  // FlightLog::add_group()
  Call call = Call::kAllReduce;
  uint64_t collective = 0;  // number of the group's last collective, which this is unless it is a message
  uint64_t message = 0;     // number of the group's last message
  bool is_message = false;
  TensorShapes inputs;
  TensorShapes outputs;
  std::chrono::milliseconds timeout{0};  // 0: none
  uint64_t bytes = 0;                    // Of the inputs; of what only receives, of the outputs.
  /// Hears of the call too; null: nothing does. It lives until ended(), after which the log does not use it.
  LiveGroup* live = nullptr;

  // The log's own, in nanoseconds since 1970; 0: not yet.
  uint64_t id = 0;
  int64_t created = 0;
  int64_t started = 0;  // Handed to the engine, or to the messages.
  int64_t completed = 0;
  bool retired = false;                 // is over: completed, or failed
  std::optional<float> duration_ms;     // Of a call that is completed.
  std::optional<MessageStream> stream;  // A message has one once both ends are known.
  uint64_t place = 0;                   // The number in its stream, from 1 on.
  uint64_t live_id = 0;                 // LiveGroup::begin()
};

/// A group as its dumps name it.
struct FlightGroup {
  std::string name;
  std::string description;
  std::vector<uint64_t> ranks;
  int rank = 0;  // Index in `ranks` of this process.
  uint64_t messages = 0;
  uint64_t last_enqueued = 0;
  uint64_t last_completed = 0;
  /// How many messages each has had, and the number of the last one in the log.
  std::map<MessageStream, std::pair<uint64_t, uint64_t>> streams;
};

/// How far a group is.
struct FlightProgress {
  uint64_t enqueued = 0;      // Number of its last collective.
  uint64_t completed = 0;     // Number of the last one that is over, and was good.
  double oldest_seconds = 0;  // Age of the oldest call that is not over, also of messages; 0: there is none.
};

/// Thread-safe.
class FlightLog {
 public:
  /// Keeps the last `capacity` calls; none with 0.
  explicit FlightLog(size_t capacity) : capacity_(capacity), room_(std::max(capacity, live::kRows)) {}
  /// The process's log keeps as many calls as PyTorch's recorder (TORCH_FR_BUFFER_SIZE). A forked child has a new one.
  static FlightLog& of_process();

  uint64_t add_group(FlightGroup group);
  /// What its dumps name it from now on.
  void rename_group(uint64_t number, const std::string& name, const std::string& description);

  /// A call is made; its number for the following ones.
  uint64_t begin(const FlightEntry& call);
  void started(uint64_t id);
  /// A message's stream is known: at once, or when something has come from any source. The first one counts.
  void belongs_to(uint64_t id, const MessageStream& stream);
  /// `duration_ms`: of a call that is timed; that of others is the time from started() on. True: FlightEntry::live
  /// wants its group's packets counted.
  bool ended(uint64_t id, bool good, std::optional<float> duration_ms = {});

  /// The oldest first.
  std::vector<FlightEntry> entries() const;
  std::map<uint64_t, FlightGroup> groups() const;
  /// By the groups' numbers. Copies no calls: those that are made meanwhile hardly wait.
  std::map<uint64_t, FlightProgress> progress() const;

 private:
  static constexpr size_t kMostGroups = 1000;   // programs may make groups for ever: the oldest are forgotten
  static constexpr size_t kMostStreams = 4096;  // Per group: programs may number their messages by tags.

  FlightEntry* find(uint64_t id);

  const size_t capacity_;
  const size_t room_;  // Live pages hear of calls that are not kept.
  mutable std::mutex mutex_;
  std::vector<FlightEntry> entries_;  // a ring: that of number n is at (n - 1) modulo room_
  uint64_t last_id_ = 0;
  std::map<uint64_t, FlightGroup> groups_;
  uint64_t last_group_ = 0;
};

}  // namespace switchml
