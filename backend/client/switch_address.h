// The switches of a group: those that the user names, or embedded ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/port_wish.h"
#include "seal/seal_key.h"
#include "store/blob.h"
#include "switchd/server.h"
#include "wire/control.h"

namespace switchml {

/// A switch, or the aggregator in some rank's host, as all ranks know it.
struct SwitchAddress {
  Endpoint endpoint;
  std::string name;      // For messages.
  uint32_t weight = 1;   // Weight of its share, if there are several.
  uint64_t tree_id = 0;  // Route::tree_id.
  int host = -1;         // The group's host that runs it; -1: none, or unknown.
  /// The first of kInvitations consecutive client keys with which it grants opens; 0: any key.
  uint64_t client_key = 0;
  std::optional<SealKey> seal;  // Of links to it; none: frames travel in the clear.
};
inline constexpr uint64_t kInvitations = 16;

/// Without a named switch's key: each rank has a file of it.
void write_switch_address(const SwitchAddress& address, Blob* blob);
Result<SwitchAddress> read_switch_address(const Blob& blob);

/// Whether a user names the group's switches, or a controller that does: else they are in ranks, or there are none.
bool names_switches(const Config& config);
/// Whether opens without a controller ask for exact sessions.
bool wants_exact(const Config& config);
/// Whether the settings allow TCP between hosts without naming it. Chips, and so controllers, know UDP alone.
bool may_take_tcp(const Config& config);
/// Whether the settings allow RDMA without naming it.
bool may_take_rdma(const Config& config);
/// The card to take. Emulated ones are slower than TCP, and are taken only where SWITCHML_TRANSPORT is rdma.
PortWish card_wish(const Config& config);

/// The switches of SWITCHML_SWITCH (parse_switches). Errors: another form, no such address, a loopback address for
/// ranks on several hosts, one address twice, several switches that are to add integers.
Result<std::vector<SwitchAddress>> named_switches(const Config& config, bool one_host);

/// The key in SWITCHML_SWITCH_KEY_FILE; none: it names no file. Errors: others may read the file, or it has no key.
Result<std::optional<SealKey>> named_key(const Config& config);

/// Starts a switch in this process at the address `own`, which runs as long as `*server`, and returns its address. It
/// grants only opens with keys that were announced by SwitchServer::invite, as those of the returned address are.
/// `one_host`: all ranks are on this host. `seal`: its key, if it has one. `group`, `rank`: for messages.
Result<SwitchAddress> embedded_switch(const Config& config, const Endpoint& own, bool one_host,
                                      const std::optional<SealKey>& seal, const std::string& group, int rank,
                                      std::unique_ptr<SwitchServer>* server);
/// Whether the name is one of embedded_switch().
bool is_embedded(const std::string& name);

/// A switch's default number of slots, for payloads up to kMostPayloadForStreams.
inline constexpr size_t kPresetSlots = 128;
inline constexpr size_t kMostPayloadForStreams = 8192;

/// A warning with the remedy if an embedded switch grants fewer slots than two streams take, or than half of the
/// default, because its socket has a receive buffer of only `queue_bytes`. Else "".
std::string advice_on_slots(const wire::Open& asked, const wire::OpenReply& granted, size_t queue_bytes);

}  // namespace switchml
