// One shard's part of one collective, and the state that the shards share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/codec.h"
#include "engine/engine.h"
#include "engine/native_codec.h"
#include "slots/chunk_plan.h"

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

struct Task {
  /// The stream that carries it.
  enum class Stream : uint8_t {
    kShort,  // of collectives of few chunks, or of all where there is one stream only
    kBulk,
  };

  /// `part`: its elements. `chunk_bytes`: the session's payload, or less in a native one.
  Task(uint64_t serial_number, std::shared_ptr<SharedCollective> collective, ElementRange part,
       const SessionParameters& session, size_t chunk_bytes);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const Collective& collective() const { return shared->collective(); }
  bool is_bulk() const { return stream == Stream::kBulk; }

  bool all_calls_opened() const { return next_call == plan.superblocks(); }
  bool all_data_opened() const { return next_superblock == plan.superblocks(); }
  /// Everything was sent and answered.
  bool complete() const { return announced && all_calls_opened() && all_data_opened() && in_flight == 0; }
  /// "all_reduce(SUM, float32, 100 elements)"
  std::string describe() const;

  uint64_t serial;
  std::shared_ptr<SharedCollective> shared;
  ChunkPlan plan;
  Codec codec;  // of integers
  NativeCodec native_codec;
  Stream stream;
  bool announced = false;      // in the short stream; in a native session its chunks do that, if it has any there
  bool was_complete = false;   // as on_task_progress() has seen it
  size_t next_call = 0;        // superblock whose call chunk is opened next
  size_t next_superblock = 0;  // superblock whose data is being opened
  size_t next_chunk = 0;       // chunk of that superblock
  size_t in_flight = 0;        // chunks opened and not answered, of all stages
  bool finished = false;       // the caller has been told
  bool is_slow = false;        // EngineOptions::slow has been
  uint64_t covered = 0;        // by the witness: a hash of what this call is (task.cc)
};

}  // namespace switchml
