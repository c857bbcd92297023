// Where the ranks of a group are, as one of its hosts sees it. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace switchml::shm {

/// A result that has a piece of each rank has them in the order of hosts, as many of each as the fullest has ranks:
/// where a host has fewer, its last pieces belong to no rank. [MOVED-8]
class HostMap {
 public:
  /// `ranks`: those of each host, in order, all together 0, 1, 2 ... once each. `host`: this one.
  HostMap(std::vector<std::vector<int>> ranks, int host);
  static HostMap on_one_host(int ranks);

  int host() const { return host_; }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks_here() const { return ranks_[static_cast<size_t>(host_)]; }
  size_t pieces_of_a_host() const { return most_; }
  size_t pieces() const { return ranks_.size() * most_; }
  size_t piece_of(int rank) const { return pieces_[static_cast<size_t>(rank)]; }
  int host_of(int rank) const { return static_cast<int>(piece_of(rank) / most_); }
  /// Its index among the ranks of its host.
  int local_index(int rank) const { return static_cast<int>(piece_of(rank) % most_); }
  bool is_here(int rank) const { return host_of(rank) == host_; }

 private:
  std::vector<std::vector<int>> ranks_;
  int host_;
  size_t most_ = 0;
  std::vector<size_t> pieces_;  // indexed by rank
};

}  // namespace switchml::shm
