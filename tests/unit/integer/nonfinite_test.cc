#include "integer/nonfinite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/limits.h"
#include "kernels/kernels.h"

namespace switchml {
namespace {

TEST(Nonfinite, ASumIsWhatIeeeSaysOfItsTerms) {  // [WORD-10]
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const uint32_t most = kMaxWorkers;
  for (const uint32_t nans : {0U, 1U, most}) {
    for (const uint32_t positive : {0U, 1U, most}) {
      for (const uint32_t negative : {0U, 1U, most}) {
        double sum = 1.0;
        if (nans > 0) sum += nan;
        if (positive > 0) sum += inf;
        if (negative > 0) sum -= inf;
        Nonfinite expected = Nonfinite::kNone;
        if (std::isnan(sum)) expected = Nonfinite::kNan;
        if (std::isinf(sum)) expected = sum > 0 ? Nonfinite::kPosInf : Nonfinite::kNegInf;
        const uint32_t counts = nans * kCountNan + positive * kCountPosInf + negative * kCountNegInf;
        EXPECT_EQ(nonfinite_class(counts), expected)
            << nans << " NaN, " << positive << " +Inf, " << negative << " -Inf";
      }
    }
  }
}

TEST(Nonfinite, CountsOfAllRanksDoNotRunIntoEachOther) {
  // As much as ten bits hold.
  EXPECT_EQ(nonfinite_class(0x3ffU), Nonfinite::kNan);
  EXPECT_EQ(nonfinite_class(0x3ffU << 10), Nonfinite::kPosInf);
  EXPECT_EQ(nonfinite_class(0x3ffU << 20), Nonfinite::kNegInf);
  EXPECT_EQ(nonfinite_class(0x3U << 30), Nonfinite::kNone) << "what is above belongs to nobody";
  EXPECT_LT(static_cast<uint32_t>(kMaxWorkers), 0x3ffU);
}

TEST(Nonfinite, SeveralTermsCountAsOneOfEachClass) {  // [CALL-9]
  EXPECT_EQ(counted_once(0), 0U);
  for (const uint32_t counts : {kCountNan, kCountPosInf, kCountNegInf, kCountNan + kCountPosInf + kCountNegInf}) {
    EXPECT_EQ(counted_once(counts), counts);
    EXPECT_EQ(counted_once(kMaxHostRanks * counts), counts);
    EXPECT_EQ(nonfinite_class(kMaxWorkers * counted_once(kMaxHostRanks * counts)), nonfinite_class(counts));
  }
}

/// The pattern of each class in `type`.
std::vector<uint32_t> patterns(ElementType type) {
  if (type == ElementType::kFloat32) return {0x7fc00000U, 0x7f800000U, 0xff800000U};
  if (type == ElementType::kFloat16) return {0x7e00U, 0x7c00U, 0xfc00U};
  return {0x7fc0U, 0x7f80U, 0xff80U};
}

TEST(Nonfinite, OnlyElementsThatAreOfAClassAreWritten) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    const size_t size = element_bytes(type);
    for (size_t n = 0; n < 20; ++n) {
      const std::vector<uint8_t> before((n + 1) * size, 0x3a);
      std::vector<uint8_t> out = before;
      std::vector<uint8_t> classes(n);
      for (size_t i = 0; i < n; ++i) classes[i] = static_cast<uint8_t>((i + n) % 4);
      write_nonfinite(type, out.data(), classes.data(), n);
      std::vector<uint8_t> expected = before;
      for (size_t i = 0; i < n; ++i) {
        if (classes[i] == 0) continue;
        const uint32_t bits = patterns(type)[classes[i] - 1U];
        std::memcpy(expected.data() + i * size, &bits, size);
      }
      ASSERT_EQ(out, expected) << to_string(type) << ", " << n << " elements";
    }
  }
}

TEST(NonfiniteDeathTest, IntegersHaveNoSuchValues) {
  uint8_t classes[1] = {1};
  int32_t out = 0;
  EXPECT_DEATH(write_nonfinite(ElementType::kInt32, &out, classes, 1), "is_floating");
}

}  // namespace
}  // namespace switchml
