// What the ranks of a group tell each other about their switch: short texts, and what a rank knows from them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace switchml {

/// Not thread-safe.
class News {
 public:
  /// The switch that the group has after so many moves is lost.
  static std::string loss(int moves, const std::string& why);
  /// Rank 0 has a session to return to. Attempts are counted from 1.
  static std::string offer(int attempt);
  /// The rank that says it has made its last call.
  static std::string end();

  /// Passes over what is none of these.
  void hear(int rank, const std::string& text);
  void hear_leave(int rank);

  /// Why that switch is lost, as was heard first; nullopt: no rank has said so.
  std::optional<std::string> loss_after(int moves) const;
  /// The last attempt that rank 0 has offered; 0: none.
  int offered() const { return offered_; }
  bool has_left(int rank) const { return left_.count(rank) != 0; }
  /// Whether the rank has made its last call, or has left; and how many have.
  bool at_the_end(int rank) const { return at_the_end_.count(rank) != 0; }
  size_t at_the_end() const { return at_the_end_.size(); }

 private:
  std::map<int, std::string> losses_;  // Key: the moves before them.
  int offered_ = 0;
  std::set<int> at_the_end_;
  std::set<int> left_;
};

}  // namespace switchml
