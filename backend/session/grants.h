// What rank 0 asks switches for, and whether what they grant serves a group. No I/O.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/config.h"
#include "client/switch_address.h"
#include "store/blob.h"
#include "wire/control.h"

namespace switchml {

/// Sessions that are wanted, one with each switch.
struct SessionWish {
  size_t workers = 1;
  size_t shards = 1;
  bool of_hosts = false;  // The workers are hosts, some of several ranks.
  size_t payload = 0;
  int slots = 0;  // 0: the preset.
  Carrier carrier = Carrier::kPackets;
  size_t switches = 1;
};

wire::Open request_for(const SessionWish& wish, Precision precision);
/// Whether the last of these grants, which are the first switches', goes with the settings and with the other grants.
Status check_last_grant(const Config& config, const std::vector<SwitchAddress>& switches,
                        const std::vector<wire::OpenReply>& granted);
/// The first switch with a grant that is not exact or lacks that flag; empty: there is none.
std::string first_without(uint64_t flag, const std::vector<SwitchAddress>& switches,
                          const std::vector<wire::OpenReply>& granted);

}  // namespace switchml
