// Ranks as threads of this process, with a map for a store.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/blob.h"
#include "store/rendezvous.h"
#include "store/store_channel.h"
#include "store/store_exchange.h"

namespace switchml {

class MapStore : public Rendezvous {
 public:
  Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken) return {Code::kUnavailable, "the map is torn"};
    Entry& entry = entries_[key];
    entry.value = value;
    entry.changed.notify_all();
    return {};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    Entry& entry = entries_[key];
    while (!entry.value) {
      const Time now = monotonic_now();
      if (now >= deadline) return Status(Code::kTimeout, key);
      entry.changed.wait_for(lock, std::min<Duration>(deadline - now, milliseconds(100)));
    }
    return *entry.value;
  }
  bool broken = false;

 private:
  /// Its own condition, so that a thousand ranks that wait for other keys sleep on.
  struct Entry {
    std::optional<std::string> value;
    std::condition_variable changed;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// A store that shows one rank something else than what another has left under one key.
class AlteredStore : public Rendezvous {
 public:
  /// `key` empty: it changes nothing.
  AlteredStore(Rendezvous& below, std::string key, std::function<void(Blob*)> change)
      : below_(below), key_(std::move(key)), change_(std::move(change)) {}
  Status set(const std::string& key, const std::string& value) override { return below_.set(key, value); }
  Result<std::string> get(const std::string& key, Time deadline) override {
    auto value = below_.get(key, deadline);
    if (!value.ok() || key != key_) return value;
    auto blob = Blob::parse(value.value());
    if (!blob.ok()) return blob.status();
    change_(&blob.value());
    return blob->encode();
  }

 private:
  Rendezvous& below_;
  const std::string key_;
  const std::function<void(Blob*)> change_;
};

/// The store as a rank sees it whose host has another name.
class PlacedStore : public Rendezvous {
 public:
  PlacedStore(Rendezvous& below, int rank, char host) : below_(below), hello_(rank_key("hello", rank)), host_(host) {}
  Status set(const std::string& key, const std::string& value) override {
    // Of a second session too, whose keys have something in front.
    const bool is_hello = key.size() >= hello_.size() && key.compare(key.size() - hello_.size(), key.npos, hello_) == 0;
    if (!is_hello) return below_.set(key, value);
    auto blob = Blob::parse(value);
    EXPECT_TRUE(blob.ok());
    blob->set("host", std::string(1, host_));
    return below_.set(key, blob->encode());
  }
  Result<std::string> get(const std::string& key, Time deadline) override { return below_.get(key, deadline); }

 private:
  Rendezvous& below_;
  const std::string hello_;
  const char host_;
};

/// Waits for a rank that long.
inline StoreChannel::MayWait for_seconds(int n) {
  return [n](int, Duration waited) { return waited < seconds(n) ? Status() : Status(Code::kTimeout, "nobody comes"); };
}

/// Runs `body(rank)` for each rank in a thread of its own.
inline void each_rank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

inline bool contains(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

}  // namespace switchml
