#include "c10d/call_table.h"

#include <utility>

namespace switchml {
namespace {
// Profiles match on the part behind the colon, so one table of full titles gives both names.
constexpr size_t kPrefix = sizeof("switchml:") - 1;
constexpr std::array<const char*, kCalls> kTitles = {
    "switchml:all_reduce",
    "switchml:all_reduce_coalesced",
    "switchml:all_reduce_sparse",
    "switchml:reduce",
    "switchml:reduce_scatter",
    "switchml:reduce_scatter_tensor",
    "switchml:reduce_scatter_tensor_coalesced",
    "switchml:barrier",
    "switchml:monitored_barrier",
    "switchml:broadcast",
    "switchml:all_gather",
    "switchml:all_gather_into_tensor",
    "switchml:all_gather_coalesced",
    "switchml:all_gather_into_tensor_coalesced",
    "switchml:gather",
    "switchml:scatter",
    "switchml:all_to_all",
    "switchml:all_to_all_single",
    "switchml:send",
    "switchml:recv",
    "switchml:recv_any_source",
};
static_assert(static_cast<size_t>(Call::kRecvAnySource) + 1 == kCalls);

template <size_t... calls>
constexpr std::array<Title, kCalls> names(std::index_sequence<calls...> /*all*/) {
  return {Title(kTitles[calls] + kPrefix)...};
}
constexpr std::array<Title, kCalls> kNames = names(std::make_index_sequence<kCalls>());
}  // namespace

const char* profiling_title(Call call) { return kTitles[static_cast<size_t>(call)]; }
const Title& title_of(Call call) { return kNames[static_cast<size_t>(call)]; }

const char* to_string(Way way) {
  switch (way) {
    case Way::kSwitch: return "switch";
    case Way::kMemory: return "memory";
    case Way::kPeers: return "peers";
    case Way::kStore: return "store";
    case Way::kLocal: return "local";
  }
  return "?";
}

uint64_t CallTable::total(Way way) const {
  uint64_t sum = 0;
  for (size_t call = 0; call < kCalls; ++call) sum += get(static_cast<Call>(call), way);
  return sum;
}

}  // namespace switchml
