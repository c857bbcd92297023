// Aggregation in an integer session: words are added, or the maximum is taken, as contributions come. Contributions to
// one use may differ in length [LEN-1]: missing words count as zeros.
#pragma once

#include "format/aggregator.h"

namespace switchml {

class IntegerAggregator final : public Aggregator {
 public:
  size_t header_bytes() const override { return wire::kHeaderBytes; }
  wire::ParseError parse(const uint8_t* frame, size_t size, bool is_result, Arrival* out) const override;
  void add(const Arrival& arrival, bool is_first, SlotUse* use, SlotStore* store) const override;
  void complete(const Arrival& last, SlotUse* use, SlotStore* store, wire::ChecksumRule rule,
                std::optional<uint8_t> uplink) const override;
  SwitchFrame repeated_frame(const SlotUse& use, const uint8_t* payload, uint8_t worker, size_t asked,
                             bool is_leaf) const override;
};

}  // namespace switchml
