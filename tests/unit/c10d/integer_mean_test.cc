#include "c10d/integer_mean.h"

#include <gtest/gtest.h>

#include <limits>

#include "fixture.h"

namespace switchml {
namespace {

/// The mean of one number of each rank.
int64_t mean_of(const std::vector<int64_t>& numbers, at::ScalarType type) {
  const int ranks = static_cast<int>(numbers.size());
  const at::Tensor output = at::zeros({1}, type);
  const IntegerMean mean(output, ranks);
  mean.sums().quotients.zero_();
  mean.sums().remainders.zero_();
  for (const int64_t number : numbers) {
    const IntegerMean::Terms terms = IntegerMean::terms_of(at::full({1}, number, at::kLong).to(type), ranks);
    mean.sums().quotients.add_(terms.quotients);
    mean.sums().remainders.add_(terms.remainders);
  }
  mean.write();
  return output.to(at::kLong).item<int64_t>();
}

TEST(IntegerMean, GoesTowardsZero) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = -9; b <= 9; ++b) {
      for (int64_t c = -9; c <= 9; ++c) {
        ASSERT_EQ(mean_of({a, b, c}, at::kChar), (a + b + c) / 3) << a << ", " << b << ", " << c;
      }
    }
  }
}

TEST(IntegerMean, OfReplicasIsTheReplica) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  for (const size_t ranks : {1, 2, 3, 300}) {
    for (const int64_t number : {int64_t{-128}, int64_t{-1}, int64_t{0}, int64_t{127}}) {
      EXPECT_EQ(mean_of(std::vector<int64_t>(ranks, number), at::kChar), number) << ranks;
    }
    EXPECT_EQ(mean_of(std::vector<int64_t>(ranks, 255), at::kByte), 255) << ranks;
    EXPECT_EQ(mean_of(std::vector<int64_t>(ranks, kMost), at::kLong), kMost) << ranks;
    EXPECT_EQ(mean_of(std::vector<int64_t>(ranks, -kMost - 1), at::kLong), -kMost - 1) << ranks;
  }
  EXPECT_EQ(mean_of({kMost, kMost, -kMost - 1}, at::kLong), kMost / 3);
}

}  // namespace
}  // namespace switchml
