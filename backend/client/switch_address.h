// Where rank 0 has its group find a switch: one that the user names, or one that it runs itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/port_wish.h"
#include "store/blob.h"
#include "switchd/server.h"
#include "wire/control.h"

namespace switchml {

/// A switch, or an aggregator of some rank's host, as all ranks know it.
struct SwitchAddress {
  Endpoint endpoint;
  std::string name;      // for messages
  uint32_t weight = 1;   // of its share, where there are several
  uint64_t tree_id = 0;  // Route::tree_id
  int host = -1;         // of the group's, that it runs on; -1: none, or not known
  /// The first of kInvitations client keys that it takes an open with, in a row; 0: any key.
  uint64_t client_key = 0;
};
inline constexpr uint64_t kInvitations = 16;

void write_switch_address(const SwitchAddress& place, Blob* blob);
Result<SwitchAddress> read_switch_address(const Blob& blob);

/// Whether sessions that are asked for without a controller are to be exact ones, where a switch can.
bool wants_exact(const Config& config);
/// Whether the settings leave it to us to take TCP to other hosts. A chip, and so a controller, knows UDP alone.
bool may_take_tcp(const Config& config);
/// The same of a card.
bool may_take_rdma(const Config& config);
/// Which one. Software that emulates one is slower than TCP, and is taken only where it is asked for.
PortWish card_wish(const Config& config);

/// The switches of SWITCHML_SWITCH: ADDRESS:PORT, or several of them with commas between, each perhaps with *WEIGHT.
/// Errors: no such address, no port, a loopback address for ranks on several hosts, one address twice, a weight that is
/// none, several switches for integers.
Result<std::vector<SwitchAddress>> named_switches(const Config& config, bool one_host);

/// Starts a switch in this process at the address `own`, which runs as long as `*server`, and says where it is. It
/// serves nobody but those whose opens are announced to it: by SwitchServer::invite, as the keys of the place are
/// already. `one_host`: all ranks are on this one. `group`, `rank`: how messages call it.
Result<SwitchAddress> embedded_switch(const Config& config, const Endpoint& own, bool one_host,
                                      const std::string& group, int rank, std::unique_ptr<SwitchServer>* server);
/// Whether messages call it as embedded_switch does.
bool is_embedded(const std::string& name);

/// So many slots a switch gives a job that asks for no number, if it has them, for payloads up to that one.
inline constexpr size_t kPresetSlots = 128;
inline constexpr size_t kMostPayloadForStreams = 8192;

/// Where an embedded switch has granted fewer slots than two streams take, or than half of the default, because the
/// kernel has given its socket a receive buffer of only `queue_bytes`: what that costs and what helps. Else "".
std::string advice_on_slots(const wire::Open& asked, const wire::OpenReply& granted, size_t queue_bytes);

}  // namespace switchml
