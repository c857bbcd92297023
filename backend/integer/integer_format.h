// The format of sessions with integer switches, which add 32-bit integers as a chip does. A stream has two lanes. The
// call lane carries one chunk per superblock of every collective, ahead of the data: it announces the collective
// (ranks that disagree find out by its witness) and agrees on exponents. The data lane carries elements, tensor after
// tensor without a gap. The short stream's call lane announces the collectives of the bulk stream too, so that ranks
// that disagree find out whichever streams they chose.
#pragma once

#include <memory>
#include <vector>

#include "format/format.h"
#include "integer/superblock_ring.h"
#include "integer/witness.h"
#include "wire/layout.h"

namespace switchml {

class IntegerTask;

class IntegerFormat final : public Format {
 public:
  IntegerFormat(const SessionParameters& session, WorkerCounters& counters);

  std::vector<LaneShape> lanes() const override;
  size_t memory_bytes() const override;
  std::unique_ptr<Task> begin(uint64_t serial, std::shared_ptr<SharedCollective> collective, ElementRange part,
                              size_t chunk_bytes) override;
  Next next(Task& task, const LaneShape& lane) override;
  std::optional<Chunk> take(Task& task, const LaneShape& lane) override;
  void encode(InFlight& flight, Transport& link) override;
  std::vector<uint8_t> frame_of_zeros(size_t slot, uint32_t seq, size_t bytes) const override;
  void readdress(const InFlight& flight) const override;
  Parsed parse(const RxFrame& frame, ResultView* result) const override;
  Verdict judge(const InFlight& flight, const ResultView& result) const override;
  void decode(Task& task, const InFlight& flight, const ResultView& result) override;
  std::string disagreement() const override;

 private:
  std::optional<Chunk> take_call(IntegerTask& task);
  std::optional<Chunk> take_data(IntegerTask& task);
  std::optional<Chunk> take_data_of_floats(IntegerTask& task);
  SuperblockRing& ring_of(const Task& task) { return rings_[task.is_bulk() ? 1 : 0]; }
  void seal(InFlight& flight, wire::Operation operation, size_t words, uint64_t exponents_hash) const;

  std::vector<SuperblockRing> rings_;  // One per stream.
  const Witness witness_;
};

}  // namespace switchml
