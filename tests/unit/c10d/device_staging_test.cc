// What needs no device. tests/python/test_device_tensors.py has one.
#include "c10d/device_staging.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

TEST(CanStage, IsSaidOfAcceleratorsAlone) {
  EXPECT_FALSE(can_stage(at::kCPU));
  EXPECT_FALSE(can_stage(at::kMeta));
  EXPECT_FALSE(can_stage(at::kPrivateUse1)) << "none is registered";
}

TEST(PinnedBytes, AreNeverMoreThanTheLimit) {
  PinnedBytes pinned(100);
  EXPECT_TRUE(pinned.take(60));
  EXPECT_FALSE(pinned.take(41));
  EXPECT_TRUE(pinned.take(40));
  EXPECT_FALSE(pinned.take(SIZE_MAX)) << "a sum that wraps";
  pinned.give_back(60);
  EXPECT_EQ(pinned.used(), 40U);
  EXPECT_TRUE(pinned.take(60));
}

TEST(RequireSameDevice, NamesTheCallAndBothDevices) {
  const c10::Device first(at::kCUDA, 0);
  const c10::Device second(at::kCUDA, 1);
  EXPECT_EQ(thrown_by([&] { require_same_device(first, first, "all_reduce"); }), "");
  EXPECT_TRUE(
      contains(refusal_of([&] { require_same_device(first, second, "all_reduce"); }),
               "switchml all_reduce: Expected list of tensors on the same device: there are cuda:0 and cuda:1"));
}

}  // namespace
}  // namespace switchml
