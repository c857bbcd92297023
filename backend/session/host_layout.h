// Which ranks of a group share a host, and how hosts with several ranks speak to a switch: as one worker each. Its
// ranks share memory and take turns in sending its chunks.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "shm/board.h"
#include "shm/host_map.h"

namespace switchml {

class HostLayout {
 public:
  HostLayout() = default;
  /// `identities`: of the host of each rank. Hosts are numbered in the order of their lowest ranks.
  static HostLayout of(const std::vector<std::string>& identities);
  /// text() as another rank wrote it. kMismatch: it is no layout of so many ranks.
  static Result<HostLayout> parse(const std::string& text, int ranks);
  std::string text() const;

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_of_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  /// In order; the first one is the host's leader.
  const std::vector<int>& ranks_of(int host) const { return ranks_of_[static_cast<size_t>(host)]; }
  /// The hosts' leaders, in order.
  std::vector<int> leaders() const;
  int leader_of(int rank) const { return ranks_of(host_of(rank)).front(); }
  /// Where a rank stands among those of its host.
  int place_of(int rank) const;
  /// Ranks of the host that has the most, and the least.
  int most() const;
  int least() const;
  /// How many ranks of each host send: the same number on all, because each is a shard of the session.
  int owners() const;
  /// "4, 5, 6 or 7 (one host)": how messages call each host after the word "rank".
  std::vector<std::string> names() const;
  /// As a rank's host sees it.
  shm::HostMap map_for(int rank) const { return {ranks_of_, host_of(rank)}; }
  /// The shape of the memory of a rank's host.
  shm::BoardShape shape_for(int rank) const { return shm::shape_on_host(here(rank), most(), owners()); }

 private:
  int here(int rank) const { return static_cast<int>(ranks_of(host_of(rank)).size()); }
  static HostLayout numbered(std::vector<int> host_of);

  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_of_;
};

/// Whether hosts are to be workers, by the settings that all ranks share and where the ranks are. `faults`: some rank
/// injects faults, into a way of its own.
bool wants_hosts(const Config& config, const HostLayout& layout, bool faults);

/// kInvalidArgument: more ranks or hosts than a group, a host or a switch can have. The message has the number, the
/// limit, and what to do.
Status check_limits(const Config& config, const HostLayout& layout, bool faults);

}  // namespace switchml
