#include "c10d/flight_log.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace switchml {
namespace {

/// PyTorch's settings, and what it takes where neither is there.
size_t capacity_of_process() {
  for (const char* name : {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
    if (const char* value = std::getenv(name)) return static_cast<size_t>(std::max(0L, std::atol(value)));
  }
  return 2000;
}

int64_t now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

FlightLog* current = nullptr;  // outlives static destructors

}  // namespace

FlightLog& FlightLog::of_process() {
  static const bool made = [] {
    current = new FlightLog(capacity_of_process());
    // A lock may be held for ever, by a thread that only the parent has.
    pthread_atfork(nullptr, nullptr, [] { current = new FlightLog(capacity_of_process()); });
    return true;
  }();
  static_cast<void>(made);
  return *current;
}

uint64_t FlightLog::add_group(FlightGroup group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.emplace(++last_group_, std::move(group));
  if (groups_.size() > kMostGroups) groups_.erase(groups_.begin());
  return last_group_;
}

void FlightLog::rename_group(uint64_t number, const std::string& name, const std::string& description) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = groups_.find(number);
  if (found == groups_.end()) return;
  found->second.name = name;
  found->second.description = description;
}

uint64_t FlightLog::begin(FlightEntry entry) {
  if (capacity_ == 0) return 0;
  entry.created = now();
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightGroup& group = groups_[entry.group];
  if (entry.is_message) ++group.messages;
  entry.message = group.messages;
  group.last_enqueued = std::max(group.last_enqueued, entry.collective);
  entry.id = ++last_id_;
  if (entries_.size() < capacity_) {
    entries_.push_back(std::move(entry));
  } else {
    entries_[(last_id_ - 1) % capacity_] = std::move(entry);
  }
  return last_id_;
}

/// Under the lock. Null: forgotten.
FlightEntry* FlightLog::find(uint64_t id) {
  if (id == 0 || id > last_id_) return nullptr;
  FlightEntry& entry = entries_[(id - 1) % capacity_];
  return entry.id == id ? &entry : nullptr;
}

void FlightLog::started(uint64_t id) {
  if (id == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry != nullptr && entry->started == 0) entry->started = now();
}

void FlightLog::belongs_to(uint64_t id, const MessageStream& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr || entry->stream) return;
  auto& streams = groups_[entry->group].streams;
  auto& [length, last] = streams[stream];
  entry->stream = stream;
  entry->place = ++length;
  last = id;
  if (streams.size() <= kMostStreams) return;
  streams.erase(std::min_element(streams.begin(), streams.end(),
                                 [](const auto& a, const auto& b) { return a.second.second < b.second.second; }));
}

void FlightLog::ended(uint64_t id, bool good, std::optional<float> duration_ms) {
  if (id == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr || entry->retired) return;
  entry->retired = true;
  if (!good) return;
  entry->completed = now();
  entry->duration_ms = duration_ms;
  if (entry->started == 0) entry->started = entry->completed;
  FlightGroup& group = groups_[entry->group];
  if (!entry->is_message) group.last_completed = std::max(group.last_completed, entry->collective);
}

std::vector<FlightEntry> FlightLog::entries() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<FlightEntry> result = entries_;
  std::sort(result.begin(), result.end(), [](const FlightEntry& a, const FlightEntry& b) { return a.id < b.id; });
  return result;
}

std::map<uint64_t, FlightGroup> FlightLog::groups() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_;
}

}  // namespace switchml
