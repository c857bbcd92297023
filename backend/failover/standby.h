// What takes a lost switch's place: the first rank of each host runs a switch, and all of these have the same session,
// each for some of its slots (transport/spread_link.h). They add as a switch does, so results have the same bits.
//
//   rank 0                   standby/N/keys     what makes their sessions alike; the key of links to them, if sealed
//   each host's first rank   standby/N/place    where its switch listens, or why there is none
//   rank 0                   standby/N/session  what all of them have granted
//   each rank                standby/N/joined   ok, or why it could not
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "client/switch_entry.h"
#include "store/store_channel.h"
#include "switchd/server.h"

namespace switchml {

/// One thread.
class Standby {
 public:
  /// The `number`-th move of the group, from 0. `leaders`: the first rank of each host. `lost`: the session that
  /// had the streams. Borrows configuration and channel.
  Standby(const Config& config, const GroupInfo& group, std::vector<int> leaders, const SessionParameters& lost,
          StoreChannel& channel, int number);
  /// Leaves the session. A rank that runs a switch waits, at most 2 s, until the others have left it too.
  ~Standby();
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  /// Every rank; an error is one on all ranks that can still talk.
  Status start();
  /// The route to the session, once it has started; its name for messages is the caller's.
  Route route() const { return session_; }
  /// One for each shard, joined; once.
  Transports take_transports() { return std::move(transports_); }

 private:
  /// By which ranks come to these switches: what has no card of its own is reached by packets.
  Carrier carrier() const { return for_requests(session_.switch_endpoint).carrier; }
  std::string topic(const std::string& what) const { return "standby/" + std::to_string(number_) + "/" + what; }
  Status serve();
  Status read_seal(const Blob& keys);
  Result<Endpoint> serve_with(const Blob& keys);
  Status hear_switches();
  Status share_session();
  Result<Blob> open_all();
  Status join();

  const Config& config_;
  const GroupInfo group_;
  const std::vector<int> leaders_;
  SessionParameters session_;
  StoreChannel& channel_;
  const int number_;
  uint64_t client_key_ = 0;
  std::unique_ptr<SwitchServer> server_;  // On the first rank of a host.
  std::vector<Endpoint> switches_;        // Indexed by host.
  Transports transports_;
  bool joined_ = false;
};

}  // namespace switchml
