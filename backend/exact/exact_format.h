// The format of sessions with exact switches, which keep contributions and add them exactly: elements travel in their
// own type, in one round trip. A stream has one lane, in which the chunks of its collectives follow one another.
// Each chunk has a hash of its call, so the switch finds out whether ranks disagree. A barrier, an empty tensor and a
// collective of the bulk stream put a chunk without elements in the short stream's lane. So all collectives have one
// order there, and ranks that disagree meet in a slot.
#pragma once

#include <memory>
#include <vector>

#include "format/format.h"
#include "wire/layout.h"

namespace switchml {

class ExactFormat final : public Format {
 public:
  /// `keep_results`: all results are wanted with their elements, because other ranks may need them from here.
  ExactFormat(const SessionParameters& session, bool keep_results, WorkerCounters& counters)
      : Format(session, counters), keep_results_(keep_results) {}

  std::vector<LaneShape> lanes() const override;
  std::unique_ptr<Task> begin(uint64_t serial, std::shared_ptr<SharedCollective> collective, ElementRange part,
                              size_t chunk_bytes) override;
  Next next(Task& task, const LaneShape& lane) override;
  std::optional<Chunk> take(Task& task, const LaneShape& lane) override;
  void encode(InFlight& flight, Transport& link) override;
  std::vector<uint8_t> frame_of_zeros(size_t slot, uint32_t seq, size_t bytes) const override;
  TxFrame frame_of(const InFlight& flight, bool is_repeat) const override;
  void readdress(const InFlight& flight) const override;
  Parsed parse(const RxFrame& frame, ResultView* result) const override;
  Verdict judge(const InFlight& flight, const ResultView& result) const override;
  void decode(Task& task, const InFlight& flight, const ResultView& result) override;
  std::string disagreement() const override;

 private:
  void offer_memory(InFlight& flight, bool wants_result, Transport& link) const;
  void seal(InFlight& flight, uint8_t flags, const Transport& link) const;
  const uint8_t* without_target(const InFlight& flight) const;

  const bool keep_results_;
};

}  // namespace switchml
