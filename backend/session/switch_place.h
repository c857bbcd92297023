// Where rank 0 has its group find a switch: one that the user names, or one that it runs itself.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "session/blob.h"
#include "switchd/server.h"
#include "wire/control.h"

namespace switchml {

/// Where the other ranks reach rank 0, with port 0. `one_host`: all ranks are on this one.
Result<Endpoint> address_of_rank_0(const Config& config, bool one_host);

/// The switch of SWITCHML_SWITCH ("address", "name"). Errors: no such address, no port, a loopback address for ranks on
/// several hosts.
Result<Blob> named_switch(const Config& config, bool one_host);

/// Starts a switch in this process, which runs as long as `*server`, and says where it is. It serves nobody but those
/// whose opens are announced to it (SwitchServer::invite). `group`: how messages call it.
Result<Blob> embedded_switch(const Config& config, bool one_host, const std::string& group,
                             std::unique_ptr<SwitchServer>* server);

/// So many slots a switch gives a job that asks for no number, if it has them, for payloads up to that one.
inline constexpr size_t kPresetSlots = 128;
inline constexpr size_t kMostPayloadForStreams = 8192;

/// Where an embedded switch has granted fewer slots than two streams take, or than half of the preset, because the
/// kernel has given its socket a receive buffer of only `queue_bytes`: what that costs and what helps. Else "".
std::string advice_on_slots(const wire::Open& asked, const wire::OpenReply& granted, size_t queue_bytes);

}  // namespace switchml
