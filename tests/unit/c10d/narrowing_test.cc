#include "c10d/narrowing.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

constexpr int64_t kBlock = 65;  // bytes

TEST(Narrowing, ThereAndBackWithZerosBehind) {
  const at::Tensor source = at::arange(-50, 50, at::kFloat);
  for (const char* format : {"bfloat16", "float8_e4m3fn", "int8"}) {
    const bool blocks = std::string(format) != "bfloat16";
    const at::Tensor error = at::zeros({100}, at::kFloat);
    const at::Tensor terms = blocks ? at::full({4 * kBlock}, 7, at::kByte) : at::full({130}, 7, at::kBFloat16);
    narrow_tensor(source, error, terms, format);
    const at::Tensor wide = at::empty({blocks ? 4 * 64 : 130}, at::kFloat);
    widen_tensor(terms, wide, format);
    EXPECT_TRUE(wide.slice(0, 0, 100).add(error).equal(source)) << format;
    EXPECT_FALSE(wide.slice(0, 100).any().item<bool>()) << format;
  }
}

TEST(Narrowing, RefusesWhatDoesNotFit) {
  const at::Tensor source = at::ones({100}, at::kFloat);
  const at::Tensor terms = at::empty({2 * kBlock}, at::kByte);
  const auto narrowing = [&](const at::Tensor& from, const at::Tensor& error, const at::Tensor& to,
                             const char* format) {
    return refusal_of([&] { narrow_tensor(from, error, to, format); });
  };
  const at::Tensor error = at::zeros({100}, at::kFloat);
  EXPECT_EQ(narrowing(source, error, terms, "int8"), "nothing was thrown");
  EXPECT_TRUE(contains(narrowing(source, error, terms, "int4"),
                       "no narrow format is named \"int4\"; allowed: bfloat16, float8_e4m3fn, int8"));
  EXPECT_TRUE(contains(narrowing(source.to(at::kDouble), error, terms, "int8"),
                       "elements to narrow are Double on cpu; allowed: Float on cpu, contiguous"));
  EXPECT_TRUE(contains(narrowing(at::ones({10, 10}, at::kFloat).t(), error, terms, "int8"),
                       "elements to narrow are Float on cpu, with gaps; allowed: Float on cpu, contiguous"));
  EXPECT_TRUE(contains(narrowing(source, error, terms, "bfloat16"),
                       "narrow terms are Byte on cpu; allowed: BFloat16 on cpu, contiguous"));
  EXPECT_TRUE(contains(narrowing(source, at::zeros({99}, at::kFloat), terms, "int8"),
                       "99 rounding errors for 100 elements; allowed: as many"));
  const char* const room = "bytes of narrow terms for 100 elements; allowed: 130 and more, in blocks of 65";
  EXPECT_TRUE(contains(narrowing(source, error, at::empty({kBlock}, at::kByte), "int8"), room));
  EXPECT_TRUE(contains(refusal_of([&] { widen_tensor(at::empty({140}, at::kByte), source, "int8"); }), room));
}

}  // namespace
}  // namespace switchml
