// One end of a message between two ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace switchml {

inline constexpr int kAnySource = -1;

/// The tag of what a collective sends between two ranks; those of users are not negative.
inline int tag_of_collective(uint64_t number) { return -1 - static_cast<int>(number & INT32_MAX); }

/// What a rank sends, or wants to receive. Its memory is read or written until `done` runs.
struct Message {
  int peer = 0;  // the other rank; a receiver's may be kAnySource
  int tag = 0;
  const void* from = nullptr;  // a sender's bytes
  void* to = nullptr;          // a receiver's room
  size_t bytes = 0;
  Time deadline = kNever;
  /// Runs exactly once, soon: it must not block. `source`: the sender. A send is done when its transport
  /// has its bytes, or they have been dropped. A receive's kMismatch: it has got a message of another size, which is
  /// gone.
  std::function<void(const Status&, int source)> done;
  size_t moved = 0;    // so far
  bool sends = false;  // set by Messenger
};

/// "send of 80 bytes to rank 1 with tag 3"
inline std::string describe(const Message& message) {
  const std::string tag = message.tag < 0 ? " for a collective" : " with tag " + std::to_string(message.tag);
  const std::string peer = message.peer == kAnySource ? "any rank" : "rank " + std::to_string(message.peer);
  return (message.sends ? "send of " : "recv of ") + std::to_string(message.bytes) + " bytes " +
         (message.sends ? "to " : "from ") + peer + tag;
}

}  // namespace switchml
