// What a group has before its ranks can speak to each other: their numbers, and a store that all of them see.
#pragma once

#include <functional>
#include <memory>
#include <string>

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
  /// The same, while `ended`, which is asked a few times a second, is ok: its error ends the wait.
  virtual Result<std::string> get_while(const std::string& key, Time deadline, const std::function<Status()>& ended);
};

class LiveGroup;  // live/live_page.h

struct GroupInfo {
  int rank = 0;
  int size = 1;
  std::string name;                      // Used in messages.
  std::string store_host = {};           // Name or address of the store's host; empty: not known.
  std::shared_ptr<LiveGroup> live = {};  // What outsiders see of it on this rank; null: nothing.
};

}  // namespace switchml
