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

LiveCall live_call(const FlightEntry& entry) {
  LiveCall call;
  call.sequence = entry.collective;
  call.bytes = entry.bytes;
  call.call = static_cast<uint8_t>(entry.call);
  if (entry.is_message) call.kind = entry.call == Call::kSend ? live::kSend : live::kReceive;
  return call;
}

FlightLog* current = nullptr;  // outlives static destructors

}  // namespace

void TensorShapes::add(Word word) {
  if (length_ < few_.size()) {
    few_[length_] = word;
  } else {
    if (many_.empty()) many_.assign(few_.begin(), few_.end());
    many_.push_back(word);
  }
  ++length_;
}

void TensorShapes::add(const char* type, const int64_t* sizes, size_t dimensions) {
  Word word{type};
  add(word);
  word.number = static_cast<int64_t>(dimensions);
  add(word);
  for (size_t d = 0; d < dimensions; ++d) {
    word.number = sizes[d];
    add(word);
  }
}

template <typename See>
void TensorShapes::for_each(const See& see) const {
  const Word* words = many_.empty() ? few_.data() : many_.data();
  for (const Word* const end = words + length_; words != end; words += 2 + words[1].number) see(words);
}

std::vector<std::vector<int64_t>> TensorShapes::sizes() const {
  std::vector<std::vector<int64_t>> result;
  for_each([&](const Word* words) {
    result.emplace_back();
    for (int64_t d = 0; d < words[1].number; ++d) result.back().push_back(words[2 + d].number);
  });
  return result;
}

std::vector<const char*> TensorShapes::types() const {
  std::vector<const char*> result;
  for_each([&](const Word* words) { result.push_back(words->type); });
  return result;
}

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

uint64_t FlightLog::begin(const FlightEntry& call) {
  const int64_t created = wall_clock();
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t place = last_id_++ % room_;
  if (place == entries_.size()) entries_.emplace_back();
  FlightEntry& entry = entries_[place] = call;
  FlightGroup& group = groups_[entry.group];
  if (entry.is_message) ++group.messages;
  entry.message = group.messages;
  group.last_enqueued = std::max(group.last_enqueued, entry.collective);
  entry.created = created;
  if (entry.live != nullptr) entry.live_id = entry.live->begin(live_call(entry), created);
  entry.id = last_id_;
  return last_id_;
}

/// Under the lock. Null: forgotten.
FlightEntry* FlightLog::find(uint64_t id) {
  if (id == 0 || id > last_id_) return nullptr;
  FlightEntry& entry = entries_[(id - 1) % room_];
  return entry.id == id ? &entry : nullptr;
}

void FlightLog::started(uint64_t id) {
  if (id == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr || entry->started != 0) return;
  entry->started = wall_clock();
  if (entry->live != nullptr) entry->live->started(entry->live_id, entry->started);
}

void FlightLog::belongs_to(uint64_t id, const MessageStream& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr || entry->stream) return;
  auto& streams = groups_[entry->group].streams;
  auto& [length, last] = streams[stream];
  entry->stream = stream;
  if (entry->live != nullptr) {
    entry->live->set_peer(entry->live_id, entry->call == Call::kSend ? stream.destination : stream.source);
  }
  entry->place = ++length;
  last = id;
  if (streams.size() <= kMostStreams) return;
  streams.erase(std::min_element(streams.begin(), streams.end(),
                                 [](const auto& a, const auto& b) { return a.second.second < b.second.second; }));
}

bool FlightLog::ended(uint64_t id, bool good, std::optional<float> duration_ms) {
  if (id == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  FlightEntry* entry = find(id);
  if (entry == nullptr || entry->retired) return false;
  entry->retired = true;
  const int64_t ended = wall_clock();
  LiveGroup* const live = std::exchange(entry->live, nullptr);
  const bool is_old = live != nullptr && live->ended(entry->live_id, good, ended);
  if (!good) return is_old;
  entry->completed = ended;
  if (entry->started == 0) entry->started = entry->completed;
  // The clock may have been set back.
  entry->duration_ms =
      duration_ms.value_or(std::max(0.0F, static_cast<float>(entry->completed - entry->started) / 1e6F));
  FlightGroup& group = groups_[entry->group];
  if (!entry->is_message) group.last_completed = std::max(group.last_completed, entry->collective);
  return is_old;
}

std::vector<FlightEntry> FlightLog::entries() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<FlightEntry> result = entries_;
  std::sort(result.begin(), result.end(), [](const FlightEntry& a, const FlightEntry& b) { return a.id < b.id; });
  if (result.size() > capacity_) result.erase(result.begin(), result.end() - static_cast<ptrdiff_t>(capacity_));
  return result;
}

std::map<uint64_t, FlightGroup> FlightLog::groups() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_;
}

std::map<uint64_t, FlightProgress> FlightLog::progress() const {
  std::map<uint64_t, FlightProgress> result;
  const int64_t at = wall_clock();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, group] : groups_) result[number] = {group.last_enqueued, group.last_completed, 0};
  for (const FlightEntry& entry : entries_) {
    if (entry.retired) continue;
    double& oldest = result[entry.group].oldest_seconds;
    oldest = std::max(oldest, static_cast<double>(at - entry.created) / 1e9);
  }
  return result;
}

}  // namespace switchml
