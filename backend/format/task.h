// One shard's part of one collective, and the state that the shards share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "format/collective.h"
#include "format/session_parameters.h"

namespace switchml {

/// Shared by the shards of an engine: the last shard to finish tells the caller. Thread-safe.
class SharedCollective {
 public:
  SharedCollective(Collective collective, int shards) : collective_(std::move(collective)), remaining_(shards) {}

  const Collective& collective() const { return collective_; }
  /// One shard is done with the buffers, with this outcome. The last one runs `done` with the first error.
  void finish(const Status& status);

 private:
  Collective collective_;
  std::atomic<int> remaining_;
  std::mutex mutex_;
  Status first_error_;
};

/// A format's tasks know which chunks they have and how these are encoded.
class Task {
 public:
  /// The stream that carries it.
  enum class Stream : uint8_t {
    kShort,  // Collectives of few chunks, or all where there is one stream only.
    kBulk,
  };

  /// `chunks`: chunks of elements that this shard's part has.
  Task(uint64_t serial_number, std::shared_ptr<SharedCollective> collective, size_t chunks,
       const SessionParameters& session);
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const Collective& collective() const { return shared->collective(); }
  bool is_bulk() const { return stream == Stream::kBulk; }
  /// Everything was sent and answered.
  bool complete() const { return announced && in_flight == 0 && all_opened(); }
  /// "all_reduce(SUM, float32, 100 elements)"
  std::string describe() const { return switchml::describe(collective()); }

  const uint64_t serial;
  const std::shared_ptr<SharedCollective> shared;
  const Stream stream;
  const uint64_t agreed;      // a hash of what this call is, for ranks to compare (task.cc)
  bool announced;             // The short stream has announced it.
  bool was_complete = false;  // when the shard looked last
  size_t in_flight = 0;       // chunks opened and not answered
  bool finished = false;      // the caller has been told
  bool is_slow = false;       // EngineOptions::slow has been told

 private:
  /// Every chunk has been opened.
  virtual bool all_opened() const = 0;
};

}  // namespace switchml
