// The rules of a worker's slots, judged from outside by the frames that one shard sends and takes: use k+1 of a slot
// only after a result of use k, numbers without gaps, a repeat with the very same bytes, no more acceptances than uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace switchml::sim {

class StreamWatch {
 public:
  StreamWatch(const SessionParameters& session, int shard, uint32_t first_seq);

  /// What rule a frame breaks that the shard sends; empty: none.
  std::string sent(const uint8_t* frame, size_t size);
  /// A frame that the shard takes from its transport.
  void taken(const uint8_t* frame, size_t size);
  /// A result that another rank has kept.
  void supplied(uint16_t slot, uint32_t seq);
  /// The streams go on in another session.
  void move(uint8_t job, uint32_t epoch);
  /// What rule the counters break after a step; empty: none.
  std::string check(uint64_t chunks_completed) const;
  bool wrapped() const { return wrapped_; }

 private:
  struct Use {
    uint32_t seq = 0;  // 0: never used
    uint64_t hash = 0;
    bool answered = false;
  };
  std::string open(Use* use, uint16_t slot, uint32_t seq, uint64_t hash);

  uint8_t job_;
  uint32_t epoch_;
  const uint8_t worker_;
  const bool exact_;
  const int first_slot_;
  const uint32_t first_seq_;
  std::vector<Use> uses_;
  uint64_t opened_ = 0;
  bool wrapped_ = false;
};

}  // namespace switchml::sim
