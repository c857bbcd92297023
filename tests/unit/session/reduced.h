// Sessions of a whole group in one process: what they reduce, and how it ends.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fixture.h"

namespace switchml {

using Sessions = std::vector<std::unique_ptr<Session>>;

inline bool ends_within(const std::future<Status>& pending, Duration limit) {
  return pending.wait_for(limit) == std::future_status::ready;
}

/// Every rank reduces `count` elements (i mod 7 + 1) * (rank + 1) in place.
template <typename T>
void expect_reduced(const Sessions& sessions, ElementType type, ReduceOp op, size_t count) {
  const int ranks = static_cast<int>(sessions.size());
  const int factor = op == ReduceOp::kSum ? ranks * (ranks + 1) / 2 : op == ReduceOp::kMin ? 1 : ranks;
  std::vector<std::vector<T>> values(sessions.size());
  std::vector<std::future<Status>> pending;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<T>& mine = values[static_cast<size_t>(rank)];
    for (size_t i = 0; i < count; ++i) mine.push_back(static_cast<T>(static_cast<int>(i % 7 + 1) * (rank + 1)));
    Collective collective = in_place(&mine, type);
    collective.op = op;
    pending.push_back(submit(*sessions[static_cast<size_t>(rank)], std::move(collective)));
  }
  std::vector<T> expected;
  for (size_t i = 0; i < count; ++i) expected.push_back(static_cast<T>(static_cast<int>(i % 7 + 1) * factor));
  for (size_t rank = 0; rank < pending.size(); ++rank) {
    const Status status = pending[rank].get();
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(values[rank] == expected)
        << to_string(op) << " of " << count << " " << to_string(type) << ", rank " << rank;
  }
}

/// Numbers of all magnitudes, of which a sum cannot be exact.
inline std::vector<float> uneven(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(normal(random), static_cast<int>(random() % 40) - 20);
  return values;
}

}  // namespace switchml
