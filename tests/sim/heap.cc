#include "heap.h"

#include <string>

namespace switchml::sim {

void check_heap(Record* record, int account, const Heap& before, const Heap& growth, const char* who) {
  const Heap& now = heap_accounts[account];
  if (now.bytes <= before.bytes + growth.bytes && now.blocks <= before.blocks + growth.blocks) return;
  const auto text = [](const Heap& heap) {
    return std::to_string(heap.bytes) + " bytes in " + std::to_string(heap.blocks) + " blocks";
  };
  record->broken(Rule::kMemory, name_of(account) + ", " + who + ", holds " + text(now) + ", where " + text(before) +
                                    " and at most " + text(growth) + " more are right");
}

}  // namespace switchml::sim
