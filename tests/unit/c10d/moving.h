// What tests of calls that reduce nothing have in common.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "fixture.h"

namespace switchml {

using MovingGroup = ProcessGroupSwitchML;

inline const std::vector<at::ScalarType> kMoved = {at::kFloat, at::kBool, at::kBFloat16, at::kShort, at::kComplexFloat};

inline at::Tensor of_rank(int rank, std::vector<int64_t> shape, at::ScalarType type) {
  return at::full(shape, rank + 1, at::kFloat).fmod(type == at::kBool ? 2 : 100).to(type);
}

/// A tensor whose every second column is free to be written: never contiguous.
struct Strided {
  explicit Strided(at::ScalarType type) : all(at::zeros({2, 6}, type)), view(all.slice(1, 0, 6, 2)) {}
  at::Tensor all;
  at::Tensor view;
};

inline void expect_untouched(const Strided& strided) {
  const at::Tensor between = strided.all.slice(1, 1, 6, 2);
  EXPECT_TRUE(same(between, at::zeros_like(between))) << "written between the elements";
}

inline bool is_bytes(const at::Tensor& tensor) { return tensor.scalar_type() == at::kByte && tensor.is_contiguous(); }

/// Beside a switch that adds integers hosts move.
inline void with_integers(Cluster::Settings& settings) { settings.config.precision = Precision::kInteger; }

/// Between hosts, and in memory.
class EachWayOfMoving : public ::testing::TestWithParam<Way> {
 protected:
  static std::function<void(Cluster::Settings&)> way() {
    if (GetParam() != Way::kMemory) return with_integers;
    return [](Cluster::Settings& settings) { settings.config.transport = "shm"; };
  }
};

}  // namespace switchml
