// What a group has before its ranks can speak to each other: their numbers, and a store that all of them see.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace switchml {

/// A key-value store that all ranks of a group see (c10d's Store in production, a map in tests). Keys are private to
/// the group. Thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual Status set(const std::string& key, const std::string& value) = 0;
  /// Waits until the key exists or `deadline` passes (kTimeout).
  virtual Result<std::string> get(const std::string& key, Time deadline) = 0;
  /// Whether all of these keys exist now.
  virtual Result<bool> has_all(const std::vector<std::string>& keys);
  /// Their values, in their order; kTimeout: one does not exist now.
  virtual Result<std::vector<std::string>> get_all(const std::vector<std::string>& keys);
};

/// Between looks for a key: at first, and at most. A rank may be awaited for as long as the group's timeout says.
inline constexpr Duration kShortestPause = microseconds(200);
inline Duration longest_pause(Duration waited) {
  return std::clamp<Duration>(waited / 100, milliseconds(10), milliseconds(200));
}

class LiveGroup;  // live/live_page.h

struct GroupInfo {
  int rank = 0;
  int size = 1;
  std::string name;                      // Used in messages.
  std::string store_host = {};           // Name or address of the store's host; empty: not known.
  std::shared_ptr<LiveGroup> live = {};  // What outsiders see of it on this rank; null: nothing.
};

}  // namespace switchml
