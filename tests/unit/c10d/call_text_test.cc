#include "c10d/call_text.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

TEST(TypeName, IsPythons) {
  EXPECT_EQ(type_name(at::kFloat), "float32");
  EXPECT_EQ(type_name(at::kDouble), "float64");
  EXPECT_EQ(type_name(at::kBFloat16), "bfloat16");
  EXPECT_EQ(type_name(at::kLong), "int64");
  EXPECT_EQ(type_name(at::kBool), "bool");
  EXPECT_FALSE(type_name(at::kComplexFloat).empty());
}

TEST(TensorsText, NamesTypeAndCounts) {
  EXPECT_EQ(tensors_text({}), "no tensors");
  EXPECT_EQ(tensors_text({at::ones({2, 5})}), "float32, 10 elements");
  EXPECT_EQ(tensors_text({at::ones({100}), at::ones({20})}), "float32, 100 + 20 elements");
  EXPECT_EQ(tensors_text({at::ones({4}), at::ones({4}, at::kInt)}), "float32, 4 + 4 int32 elements");
  EXPECT_EQ(tensors_text({at::ones({})}), "float32, 1 elements");
}

TEST(TensorsText, OfManyTensorsIsShortAndStillTellsThemApart) {
  TensorList many(100, at::ones({3}));
  const std::string text = tensors_text(many);
  EXPECT_LT(text.size(), 100U);
  EXPECT_TRUE(contains(text, "100 tensors"));
  many.back() = at::ones({4});
  EXPECT_NE(tensors_text(many), text);
  many.back() = at::ones({3}, at::kHalf);
  EXPECT_NE(tensors_text(many), text);
}

TEST(TensorsText, SaysSparse) {
  const at::Tensor sparse = at::ones({4}).to_sparse();
  EXPECT_EQ(tensors_text({sparse}), "sparse float32, 4 elements");
}

}  // namespace
}  // namespace switchml
