// The local ranks of a board in one thread, stepped in a seeded order on a virtual clock.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "board_memory.h"
#include "shm/local_rank.h"

namespace switchml::shm::testing {

/// What `done` was called with, each time.
using Outcomes = std::shared_ptr<std::vector<Status>>;

/// Ends `collective` there.
inline Outcomes record_into(Collective* collective) {
  auto outcome = std::make_shared<std::vector<Status>>();
  collective->done = [outcome](const Status& status) { outcome->push_back(status); };
  return outcome;
}

class Team {
 public:
  /// With an odd seed ranks make parts of results, however small.
  explicit Team(BoardShape shape, uint64_t seed = 1)
      : memory_((shape.few_bytes = seed % 2 == 0 ? shape.few_bytes : 0, shape)), random_(seed) {
    failures_.resize(static_cast<size_t>(shape.ranks));
    for (size_t rank = 0; rank < failures_.size(); ++rank) {
      local_ranks_.push_back(
          std::make_unique<LocalRank>(memory_.board(), static_cast<int>(rank),
                                      [this, rank](const Status& status) { failures_[rank].push_back(status); }));
    }
  }
  ~Team() {
    for (const Outcomes& outcome : outcomes_) EXPECT_LE(outcome->size(), 1U) << "a collective has ended twice";
    for (const auto& told : failures_) EXPECT_LE(told.size(), 1U) << "a failure was told twice";
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  Outcomes submit(int rank, Collective collective) {
    outcomes_.push_back(record_into(&collective));
    local_rank(rank).submit(std::move(collective));
    return outcomes_.back();
  }
  bool step(int rank) { return local_rank(rank).step(now); }
  int any_rank() { return static_cast<int>(random_() % local_ranks_.size()); }
  /// Steps local ranks in any order until all that was submitted has an outcome; false if that does not come.
  bool run() {
    for (int i = 0; i < 100000; ++i) {
      if (all_done()) return true;
      step(any_rank());
    }
    return all_done();
  }
  bool all_done() const {
    for (const Outcomes& outcome : outcomes_) {
      if (outcome->empty()) return false;
    }
    return true;
  }

  LocalRank& local_rank(int rank) { return *local_ranks_[static_cast<size_t>(rank)]; }
  const Board& board() const { return memory_.board(); }
  uint8_t* memory() { return memory_.data(); }
  int ranks() const { return static_cast<int>(local_ranks_.size()); }
  /// What on_failure of a rank was told.
  const std::vector<Status>& failures(int rank) const { return failures_[static_cast<size_t>(rank)]; }

  Time now{seconds(1000)};

 private:
  BoardMemory memory_;
  std::mt19937_64 random_;
  std::vector<std::vector<Status>> failures_;
  std::vector<std::unique_ptr<LocalRank>> local_ranks_;
  std::vector<Outcomes> outcomes_;
};

}  // namespace switchml::shm::testing
