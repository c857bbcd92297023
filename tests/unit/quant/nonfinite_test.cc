#include "quant/nonfinite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/limits.h"
#include "quant/kernels.h"

namespace switchml::quant {
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
        Special expected = Special::kNone;
        if (std::isnan(sum)) expected = Special::kNan;
        if (std::isinf(sum)) expected = sum > 0 ? Special::kPosInf : Special::kNegInf;
        const uint32_t counts = nans * kCountNan + positive * kCountPosInf + negative * kCountNegInf;
        EXPECT_EQ(special_of(counts), expected) << nans << " NaN, " << positive << " +Inf, " << negative << " -Inf";
      }
    }
  }
}

TEST(Nonfinite, CountsOfAllRanksDoNotRunIntoEachOther) {
  // As much as ten bits hold.
  EXPECT_EQ(special_of(0x3ffU), Special::kNan);
  EXPECT_EQ(special_of(0x3ffU << 10), Special::kPosInf);
  EXPECT_EQ(special_of(0x3ffU << 20), Special::kNegInf);
  EXPECT_EQ(special_of(0x3U << 30), Special::kNone) << "what is above belongs to nobody";
  EXPECT_LT(static_cast<uint32_t>(kMaxWorkers), 0x3ffU);
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
      std::vector<uint8_t> specials(n);
      for (size_t i = 0; i < n; ++i) specials[i] = static_cast<uint8_t>((i + n) % 4);
      write_specials(type, out.data(), specials.data(), n);
      std::vector<uint8_t> expected = before;
      for (size_t i = 0; i < n; ++i) {
        if (specials[i] == 0) continue;
        const uint32_t bits = patterns(type)[specials[i] - 1U];
        std::memcpy(expected.data() + i * size, &bits, size);
      }
      ASSERT_EQ(out, expected) << to_string(type) << ", " << n << " elements";
    }
  }
}

TEST(NonfiniteDeathTest, IntegersHaveNoSuchValues) {
  uint8_t specials[1] = {1};
  int32_t out = 0;
  EXPECT_DEATH(write_specials(ElementType::kInt32, &out, specials, 1), "is_floating");
}

}  // namespace
}  // namespace switchml::quant
