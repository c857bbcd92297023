#include "engine/exponent_history.h"

#include <algorithm>

#include "base/assert.h"

namespace switchml {

// Of how many places before `place` and before the next one to open the kinds agree, counted from there backwards.
size_t ExponentHistory::common_context(uint64_t place) {
  const uint64_t first = oldest();
  size_t length = 0;
  while (length < kContext && place - length > first && at(place - length - 1).kind == at(opened_ - length - 1).kind) {
    ++length;
  }
  return length;
}

const ExponentHistory::Entry* ExponentHistory::find(uint64_t kind, uint64_t group, size_t blocks) {
  const Entry* best = nullptr;
  size_t longest = 0;
  for (uint64_t place = opened_; place-- > oldest();) {
    const Entry& entry = at(place);
    if (entry.kind != kind || entry.blocks != blocks || entry.group + lag_ > group) continue;
    const size_t length = common_context(place);
    if (best == nullptr || length > longest) {
      best = &entry;
      longest = length;
    }
    if (longest == kContext) break;
  }
  return best;
}

ExponentHistory::Prediction ExponentHistory::open(uint64_t kind, uint64_t group, size_t blocks) {
  SWITCHML_ASSERT(blocks <= kMaxSpeculatedBlocks);
  const Entry* model = blocks == 0 ? nullptr : find(kind, group, blocks);
  Entry next;
  next.kind = kind;
  next.group = group;
  next.blocks = blocks;
  next.predicted = model != nullptr;
  next.trust = kEnoughTrust;  // who has no model is one: once is worth a try
  if (model != nullptr) {
    next.trust = model->trust;
    std::copy_n(model->exponents.begin(), blocks, next.exponents.begin());  // the next entry may take the model's place
  }
  Entry& entry = at(opened_++);
  entry = next;
  if (!entry.predicted) return {};
  return {entry.exponents.data(), entry.trust >= kEnoughTrust};
}

void ExponentHistory::close(uint64_t place, const uint8_t* exponents, bool fits) {
  if (place < oldest()) return;  // forgotten already: nobody has looked at it, nobody will
  Entry& entry = at(place);
  std::copy_n(exponents, entry.blocks, entry.exponents.begin());
  if (!entry.predicted) return;
  if (fits && entry.trust < kMostTrust) ++entry.trust;
  if (!fits && entry.trust > 0) --entry.trust;
}

}  // namespace switchml
