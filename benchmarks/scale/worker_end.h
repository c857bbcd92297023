// A worker: the shard that ships (engine/shard.h) at an end of the fabric's links, with one collective to do.
#pragma once

#include <memory>
#include <vector>

#include "carrier.h"
#include "engine/shard.h"
#include "patterns.h"
#include "transport/frame_memory.h"

namespace switchml::scale {

/// The shard's socket. It lends the frames of first transmissions: they stay in the slot's memory until the result has
/// come, which is after their arrival, since there is one path. Repeated frames are copied.
class WorkerTransport final : public Transport {
 public:
  WorkerTransport(Carrier* carrier, uint32_t node, size_t most_bytes)
      : carrier_(carrier), node_(node), most_bytes_(most_bytes) {}

  Frame* arrived = nullptr;

  const char* name() const override { return "scale"; }
  TransportLimits limits() const override { return {most_bytes_, 0, 0}; }
  Endpoint local() const override { return endpoint_of(node_); }
  size_t path_frame_bytes(const Endpoint&) const override { return most_bytes_; }
  uint8_t* allocate(size_t bytes) override;
  size_t send(const TxFrame* frames, size_t count) override;
  size_t receive(RxFrame* frames, size_t count) override;
  void release() override {}
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return {}; }

 private:
  Carrier* carrier_;
  const uint32_t node_;
  const size_t most_bytes_;
  FrameMemory memory_;
  const uint8_t* begin_ = nullptr;  // [begin_, end_) is allocated.
  const uint8_t* end_ = nullptr;
};

struct WorkerOptions {
  EngineOptions engine;
  uint32_t node = 0;
  uint32_t parent = 0;  // Its switch.
  const float* input = nullptr;
  Results* results = nullptr;
  size_t elements = 0;
  Duration patience = seconds(600);
};

class WorkerEnd {
 public:
  WorkerEnd(const WorkerOptions& options, Carrier* carrier);

  void start();
  void deliver(Frame* frame);
  void on_timer();
  // ---- to another tree ----
  std::vector<uint32_t> suspend();
  std::vector<uint8_t> last_result(int slot) const { return shard_->last_result(slot); }
  void supply(const std::vector<uint8_t>& frame);
  void resume(const Route& route);

  bool over() const { return ended_at_ != kNoInstant; }
  Instant ended_at() const { return ended_at_; }
  /// The mistake; empty: all results are right.
  std::string wrong() const;
  const WorkerCounters& counters() const { return shard_->counters(); }
  size_t chunks() const { return right_; }

 private:
  void step();
  void look_again();
  /// Compares the elements that the shard has written for a result.
  void check(const uint8_t* frame, size_t size);

  const WorkerOptions options_;
  Carrier* carrier_;
  WorkerTransport* transport_ = nullptr;
  std::unique_ptr<Shard> shard_;
  Instant timer_at_ = kNoInstant;
  Instant ended_at_ = kNoInstant;
  size_t right_ = 0;  // Right chunks.
  std::string wrong_;
};

}  // namespace switchml::scale
