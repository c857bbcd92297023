// Sums of whole numbers by ranks that also tell each other something: each is exact, and checked.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "session/fixture.h"

namespace switchml {

inline float whole(int rank, int round, size_t i) { return static_cast<float>((i * 7 + rank * 13 + round * 29) % 997); }

/// One sum on all ranks, of which each adds `said` too; the sum of these. A sum that is wrong, or fails, is a fatal
/// failure of the test.
inline void sum_whole(Session& session, int rank, int size, int round, float said, float* of_all) {
  std::vector<float> values(20000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = whole(rank, round, i);
  values.push_back(said);
  *of_all = static_cast<float>(size);  // so that nobody waits for more
  const Status status = all_reduce(session, &values, seconds(60));
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    float expected = 0;
    for (int other = 0; other < size; ++other) expected += whole(other, round, i);
    ASSERT_EQ(values[i], expected) << "round " << round << ", element " << i;
  }
  *of_all = values.back();
}

}  // namespace switchml
