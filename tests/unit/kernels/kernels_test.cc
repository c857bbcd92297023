// What every table of kernels promises (kernels.h), whatever its instructions; that they equal each other is in
// kernels_avx2_test.cc and its like.
#include "kernels/kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "kernels/table_compare.h"

namespace switchml {
namespace {

using testing::Random;

class EveryTable : public ::testing::TestWithParam<const Kernels*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryTable, ::testing::ValuesIn(available_kernels()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

TEST_P(EveryTable, FindsASingleNonFiniteAnywhere) {
  for (size_t at = 0; at < 97; ++at) {
    for (const uint32_t bits : {0x7f800000U, 0xff800000U, 0x7f800001U, 0xffc12345U}) {
      std::vector<float> block(97, 3.0F);
      std::memcpy(&block[at], &bits, sizeof(bits));
      const BlockRange range = GetParam()->range[0](block.data(), block.size());
      EXPECT_TRUE(range.has_nonfinite);
      EXPECT_EQ(range.max_exponent, 128) << "the finite elements still count";
    }
  }
}

TEST_P(EveryTable, SumsInt64OverAllWorkersExactly) {  // [WORD-6, WORD-11]
  constexpr size_t kElements = 67;
  const Kernels& k = *GetParam();
  for (const uint64_t seed : {0, 1, 2}) {
    Random random(seed);
    std::vector<uint64_t> expected(kElements, 0);
    std::vector<int32_t> accumulators(kInt64Words * kElements);
    std::vector<uint8_t> words(4 * accumulators.size());
    for (int worker = 0; worker < kMaxWorkers; ++worker) {
      std::vector<uint64_t> values(kElements);
      for (uint64_t& v : values) v = seed == 0 ? ~uint64_t{0} : random();  // seed 0: every limb at its largest
      for (size_t i = 0; i < kElements; ++i) expected[i] += values[i];
      k.split64(values.data(), words.data(), kElements);
      (worker == 0 ? k.store : k.add)(accumulators.data(), words.data(), accumulators.size());
    }
    k.load(accumulators.data(), words.data(), accumulators.size());
    std::vector<uint64_t> sums(kElements);
    k.join64(words.data(), sums.data(), kElements);
    EXPECT_EQ(sums, expected);
  }
}

TEST_P(EveryTable, SumsNarrowIntegersModuloTheirWidth) {  // [WORD-4, WORD-11]
  const Kernels& k = *GetParam();
  Random random(11);
  constexpr size_t kElements = 41;
  std::vector<int8_t> expected(kElements, 0);
  std::vector<int32_t> accumulators(kElements, 0);
  std::vector<uint8_t> words(4 * kElements);
  for (int worker = 0; worker < kMaxWorkers; ++worker) {
    std::vector<int8_t> values(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<int8_t>(random());
      expected[i] = static_cast<int8_t>(static_cast<uint8_t>(expected[i]) + static_cast<uint8_t>(values[i]));
    }
    k.widen[1](values.data(), words.data(), kElements, false);
    k.add(accumulators.data(), words.data(), kElements);
  }
  k.load(accumulators.data(), words.data(), kElements);
  std::vector<int8_t> sums(kElements);
  k.narrow[1](words.data(), sums.data(), kElements, false);
  EXPECT_EQ(sums, expected);
}

TEST_P(EveryTable, MaxOfComplementsIsTheMinimum) {  // [WORD-3, WORD-5]
  const Kernels& k = *GetParam();
  const std::vector<int32_t> a = {INT32_MIN, -5, 0, 7, INT32_MAX, INT32_MIN, 3, 4, 9, -1, -2, 8, 100, -100, 55, 54, 53};
  const std::vector<int32_t> b = {INT32_MAX, 5, -1, 7, INT32_MIN, INT32_MIN, 4, 3, -9, 1, -3, 9, -100, 100, 54, 55, 52};
  std::vector<uint8_t> words(4 * a.size());
  std::vector<int32_t> accumulators(a.size());
  k.widen[0](a.data(), words.data(), a.size(), true);
  k.store(accumulators.data(), words.data(), a.size());
  k.widen[0](b.data(), words.data(), b.size(), true);
  k.max(accumulators.data(), words.data(), b.size());
  k.load(accumulators.data(), words.data(), a.size());
  std::vector<int32_t> least(a.size());
  k.narrow[0](words.data(), least.data(), a.size(), true);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(least[i], std::min(a[i], b[i])) << i;
}

// ---- arrays that end where the memory ends ----

/// `size` bytes, the last of them before a page that cannot be touched.
class AtTheEnd {
 public:
  explicit AtTheEnd(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size + page - 1) / page * page + page;
    memory_ = static_cast<uint8_t*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(memory_, MAP_FAILED);
    EXPECT_EQ(mprotect(memory_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = memory_ + mapped_ - page - size;
    std::memset(data_, 0x3c, size);
  }
  ~AtTheEnd() { munmap(memory_, mapped_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  uint8_t* data() { return data_; }

 private:
  size_t mapped_;
  uint8_t* memory_;
  uint8_t* data_;
};

// Fails by a crash: a read beyond the end changes no result, so comparing tables cannot find it.
TEST_P(EveryTable, TouchesNothingBeyondItsArrays) {
  const Kernels& k = *GetParam();
  for (size_t n = 0; n <= 70; ++n) {
    AtTheEnd bytes1(n), bytes2(2 * n), bytes4(4 * n), words(4 * n), wide(8 * n), limbs(4 * kInt64Words * n);
    const std::array<uint8_t*, 3> floats = {bytes4.data(), bytes2.data(), bytes2.data()};
    AtTheEnd other2(2 * n), other4(4 * n), other8(8 * n);
    const std::array<uint8_t*, 3> other = {other4.data(), other2.data(), other2.data()};
    const std::array<uint8_t*, 4> integers = {bytes4.data(), bytes1.data(), bytes1.data(), bytes2.data()};
    for (size_t row = 0; row < floats.size(); ++row) {
      EXPECT_FALSE(k.range[row](floats[row], n).has_nonfinite);
      k.quantize[row](floats[row], words.data(), n, {});
      k.dequantize[row](words.data(), floats[row], n, {}, 3.0F);
      k.classify[row](floats[row], words.data(), n);
      k.order[row](floats[row], words.data(), n, true);
      k.unorder[row](words.data(), floats[row], n, true);
      const std::array<const void*, 3> sources = {floats[row], floats[row], floats[row]};
      for (const size_t count : {2, 3}) k.exact_sum[row](sources.data(), count, other[row], n, 1);
    }
    const std::array<const void*, 3> doubles = {wide.data(), wide.data(), wide.data()};
    for (const size_t count : {2, 3}) k.exact_sum[3](doubles.data(), count, other8.data(), n, 1);
    for (size_t row = 0; row < integers.size(); ++row) {
      k.widen[row](integers[row], words.data(), n, false);
      k.narrow[row](words.data(), integers[row], n, false);
    }
    k.copy_non_temporal(limbs.data(), wide.data(), 8 * n);
    k.split64(wide.data(), limbs.data(), n);
    k.join64(limbs.data(), wide.data(), n);
    alignas(64) std::array<int32_t, 128> accumulators;  // must be aligned, so they cannot end where the memory does
    k.store(accumulators.data(), words.data(), n);
    k.add(accumulators.data(), words.data(), n);
    k.max(accumulators.data(), words.data(), n);
    k.load(accumulators.data(), words.data(), n);
    std::memset(words.data(), 0, 4 * n);
    EXPECT_EQ(k.dot(words.data(), reinterpret_cast<const uint32_t*>(bytes4.data()), n), 0U);
  }
}

}  // namespace
}  // namespace switchml
