#include "session/grants.h"

#include <algorithm>

#include "base/limits.h"
#include "client/switch_entry.h"

namespace switchml {

namespace {

// Slots of a session where it is not for the switch to say (0). As many as two streams take on each rank that sends; of
// several switches no more together than a single one gives, as long as that is so many: what waits in links is waited
// for.
uint16_t preset_slots(const SessionWish& wish) {
  constexpr auto kLeast = size_t{kLeastSlotsForBulk};
  const size_t all = wish.shards * kLeast;
  if (wish.switches == 1) return static_cast<uint16_t>(wish.of_hosts && all > kPresetSlots ? all : 0);
  const size_t part = kPresetSlots / (wish.switches * wish.shards);
  return static_cast<uint16_t>(wish.shards * std::clamp(part, size_t{kLeastExactForBulk}, kLeast));
}

}  // namespace

wire::Open request_for(const SessionWish& wish, Precision precision) {
  wire::Open asked;
  asked.workers = static_cast<uint16_t>(wish.workers);
  asked.shards = static_cast<uint16_t>(wish.shards);
  asked.payload = static_cast<uint32_t>(wish.payload);
  asked.slots = static_cast<uint16_t>(wish.slots);
  if (precision != Precision::kInteger && wish.carrier != Carrier::kPlaces)
    asked.flags |= wire::kOpenExact;  // [EXACT-1]
  asked.flags |= open_flag_of(wish.carrier);
  if (wish.slots == 0 && !may_lose_frames(wish.carrier)) {
    asked.slots = static_cast<uint16_t>(asked.shards * kLeastExactForBulk);
  } else if (wish.slots == 0 && wish.payload <= kMostPayloadForStreams) {
    asked.slots = preset_slots(wish);
  }
  return asked;
}

Status check_last_grant(const Config& config, const std::vector<SwitchAddress>& switches,
                        const std::vector<wire::OpenReply>& granted) {
  const std::string& name = switches[granted.size() - 1].name;
  const bool integers = (granted.back().flags & wire::kOpenExact) == 0;
  if (config.precision == Precision::kExact && integers) {
    return {Code::kInvalidArgument, "SWITCHML_PRECISION=\"exact\" cannot be had: switch " + name +
                                        " adds integers; use auto, or a switch in software"};
  }
  if (switches.size() == 1) return {};
  if (integers && config.controller.empty()) {
    return {Code::kInvalidArgument, "switch " + name + " adds integers, and cannot be one of several: name it alone"};
  }
  if (granted.back().payload == granted.front().payload) return {};  // [SHARE-1]
  return {Code::kInvalidArgument, "switch " + name + " grants " + std::to_string(granted.back().payload) +
                                      " bytes of payload, and switch " + switches.front().name + " " +
                                      std::to_string(granted.front().payload) +
                                      ": set SWITCHML_PAYLOAD to what all of them take"};
}

std::string first_without(uint64_t flag, const std::vector<SwitchAddress>& switches,
                          const std::vector<wire::OpenReply>& granted) {
  for (size_t i = 0; i < switches.size(); ++i) {
    if ((granted[i].flags & wire::kOpenExact) == 0 || (granted[i].flags & flag) == 0) return switches[i].name;
  }
  return {};
}

}  // namespace switchml
