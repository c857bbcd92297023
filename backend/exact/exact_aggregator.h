// Aggregation in an exact session: a slot keeps contributions until the last one has come, then all are reduced at once
// (exact/reduction.h) [EXACT-17, EXACT-20]. So sums of floats are exact, and rounded once at each switch of a tree.
#pragma once

#include "format/aggregator.h"

namespace switchml {

class ExactAggregator final : public Aggregator {
 public:
  size_t header_bytes() const override { return wire::kExactHeaderBytes; }
  wire::ParseError parse(const uint8_t* frame, size_t size, bool is_result, Arrival* out) const override;
  bool is_intact(const uint8_t* frame, size_t size, wire::ChecksumRule rule) const override;
  bool is_overtaken(const SlotUse& other, const Arrival& arrival) const override;
  void add(const Arrival& arrival, bool is_first, SlotUse* use, SlotStore* store) const override;
  void keep(const Arrival& arrival, SlotStore* store) const override;
  void complete(const Arrival& last, SlotUse* use, SlotStore* store, wire::ChecksumRule rule,
                std::optional<uint8_t> uplink) const override;
  SwitchFrame repeated_frame(const SlotUse& use, const uint8_t* payload, uint8_t worker, size_t asked,
                             bool is_leaf) const override;
  bool hands_on(const SlotUse& use, const Arrival& result) const override;
  void make_bare_frame(const uint8_t* result, wire::ChecksumRule rule, uint8_t* payload) const override;
};

}  // namespace switchml
