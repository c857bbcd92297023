#include "format/collective.h"

#include <algorithm>

#include "base/fnv.h"

namespace switchml {

std::string describe(const Collective& collective) {
  if (collective.op == ReduceOp::kBarrier) return collective.title;
  if (collective.movement != Movement::kNone)
    return collective.title + "(" + std::to_string(collective.part_of > 0 ? collective.part_of : collective.count) +
           " bytes)";
  return collective.title + "(" + to_string(collective.op) + ", " + to_string(collective.type) + ", " +
         std::to_string(std::max(collective.count, collective.part_of)) + " elements)";
}

uint64_t agreement_hash(const Collective& collective) {  // [WIT-12]
  uint64_t hash = fnv1a(collective.title.data(), collective.title.size());
  hash = fnv1a(&collective.tag, sizeof collective.tag, hash);
  const uint32_t numbers[] = {collective.divisor, static_cast<uint32_t>(collective.movement),
                              static_cast<uint32_t>(collective.root)};
  return fnv1a(numbers, sizeof numbers, hash);
}

}  // namespace switchml
