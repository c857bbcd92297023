#include "c10d/byte_views.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

TEST(ByteViewsTest, KnownTypesPassThrough) {
  ByteViews views;
  const at::Tensor tensor = counting(4);
  EXPECT_FALSE(ByteViews::needed(tensor));
  EXPECT_TRUE(views.input(tensor).is_same(tensor));
}

TEST(ByteViewsTest, OthersBecomeTheirBytesInPlaceWhereContiguous) {
  ByteViews views;
  const at::Tensor tensor = counting(6, at::kBFloat16).view({2, 3});
  ASSERT_TRUE(ByteViews::needed(TensorList{counting(1), tensor}));
  const at::Tensor bytes = views.output(tensor);
  EXPECT_EQ(bytes.scalar_type(), at::kByte);
  EXPECT_EQ(bytes.sizes(), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(bytes.data_ptr(), tensor.data_ptr());
}

TEST(ByteViewsTest, OneElementMayHaveAnyStride) {
  ByteViews views;
  const at::Tensor tensor = counting(2, at::kBFloat16).slice(0, 0, 2, 2);
  const at::Tensor bytes = views.output(tensor);
  EXPECT_EQ(bytes.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(bytes.data_ptr(), tensor.data_ptr());
}

TEST(ByteViewsTest, AStridedOutputIsWrittenBackByFinish) {
  ByteViews views;
  const at::Tensor base = at::zeros({2, 3}, at::kBool);
  const at::Tensor strided = base.t();
  const at::Tensor bytes = views.output(strided);
  EXPECT_NE(bytes.data_ptr(), base.data_ptr());
  bytes.fill_(1);
  EXPECT_FALSE(base.any().item<bool>());
  views.finish()();
  EXPECT_TRUE(base.all().item<bool>());
}

}  // namespace
}  // namespace switchml
