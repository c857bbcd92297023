// The witness against what can go wrong between the workers' words and the result.
#include "integer/witness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kernels/kernels.h"

namespace switchml {
namespace {

using Random = std::mt19937_64;

constexpr size_t kMaxWords = 700;
constexpr int kCases = 20000;

uint32_t word_at(const std::vector<uint8_t>& words, size_t i) {
  return static_cast<uint32_t>(words[4 * i]) << 24 | static_cast<uint32_t>(words[4 * i + 1]) << 16 |
         static_cast<uint32_t>(words[4 * i + 2]) << 8 | words[4 * i + 3];
}

void put_word(std::vector<uint8_t>& words, size_t i, uint32_t value) {
  for (size_t byte = 0; byte < 4; ++byte) words[4 * i + byte] = static_cast<uint8_t>(value >> (24 - 8 * byte));
}

// What one worker puts into a packet.
struct Contribution {
  std::vector<uint8_t> words;
  uint32_t witness = 0;
};

// The aggregate, as a switch makes it.
class Sum {
 public:
  explicit Sum(size_t n) : accumulators_(n, 0) {}
  void add(const Contribution& c) {
    kernels().add(accumulators_.data(), c.words.data(), accumulators_.size());
    witness_ += c.witness;
  }
  uint32_t witness() const { return witness_; }
  std::vector<uint8_t> words() const {
    std::vector<uint8_t> result(4 * accumulators_.size());
    kernels().load(accumulators_.data(), result.data(), accumulators_.size());
    return result;
  }

 private:
  std::vector<int32_t> accumulators_;
  uint32_t witness_ = 0;
};

constexpr SipKey kSecret{0x1122334455667788U, 0x99aabbccddeeff00U};

class WitnessTest : public ::testing::Test {
 protected:
  Random random_{7};
  Witness witness_{0x1122334455667788U, 0x99aabbccddeeff00U, kMaxWords};
  MaskInput input_{};
  int workers_ = 0;
  size_t n_ = 0;
  std::vector<Contribution> contributions_;

  MaskInput random_input() {
    MaskInput input;
    input.epoch = static_cast<uint32_t>(random_());
    input.seq = static_cast<uint32_t>(random_());
    input.slot = static_cast<uint16_t>(random_());
    input.op = static_cast<uint8_t>(random_() % 2);
    input.type = static_cast<uint8_t>(random_() % 8);
    input.stage = static_cast<uint8_t>(random_() % 4);
    input.count = random_() % 1000000;
    input.first = random_() % 1000000;
    input.exponents_hash = random_();
    return input;
  }

  Contribution contribute(int worker, const MaskInput& input, std::vector<uint8_t> words) const {
    const uint32_t witness = witness_.contribution(worker, call_mask(kSecret, input), words.data(), words.size() / 4);
    return {std::move(words), witness};
  }

  std::vector<uint8_t> random_words(size_t n) {
    std::vector<uint8_t> words(4 * n, 0);
    if (random_() % 8 == 0) return words;  // all zero: only the mask tells
    const auto shift = random_() % 24;
    for (size_t i = 0; i < n; ++i) put_word(words, i, static_cast<uint32_t>(static_cast<int32_t>(random_()) >> shift));
    return words;
  }

  // A new use of a slot: 1..8 workers, 1..40 words, now and then a long chunk.
  void new_case() {
    input_ = random_input();
    workers_ = 1 + static_cast<int>(random_() % 8);
    n_ = random_() % 16 == 0 ? 1 + random_() % kMaxWords : 1 + random_() % 40;
    contributions_.clear();
    for (int i = 0; i < workers_; ++i) contributions_.push_back(contribute(i, input_, random_words(n_)));
  }

  Contribution& any() { return contributions_[random_() % contributions_.size()]; }

  Sum sum_of_all() const {
    Sum sum(n_);
    for (const Contribution& c : contributions_) sum.add(c);
    return sum;
  }

  bool passes(uint32_t received, const std::vector<uint8_t>& words) const {
    return witness_.check(received, workers_, call_mask(kSecret, input_), words.data(), n_);
  }
  bool passes(const Sum& sum) const { return passes(sum.witness(), sum.words()); }
};

TEST_F(WitnessTest, RightSumsPass) {  // [WIT-3, WIT-5]
  for (int i = 0; i < kCases; ++i) {
    new_case();
    ASSERT_TRUE(passes(sum_of_all()));
  }
}

TEST_F(WitnessTest, FlippedBitIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    const Sum sum = sum_of_all();
    std::vector<uint8_t> words = sum.words();
    words[random_() % words.size()] ^= static_cast<uint8_t>(1U << (random_() % 8));
    ASSERT_FALSE(passes(sum.witness(), words));
    ASSERT_FALSE(passes(sum.witness() ^ (1U << (random_() % 32)), sum.words()));
  }
}

TEST_F(WitnessTest, FlippedBitInAContributionIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    std::vector<uint8_t>& words = any().words;
    words[random_() % words.size()] ^= static_cast<uint8_t>(1U << (random_() % 8));
    ASSERT_FALSE(passes(sum_of_all()));
  }
}

TEST_F(WitnessTest, ScrambledResultIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    const Sum sum = sum_of_all();
    std::vector<uint8_t> words = sum.words();
    for (uint8_t& byte : words) byte = static_cast<uint8_t>(byte ^ random_());
    if (words == sum.words()) continue;
    ASSERT_FALSE(passes(sum.witness(), words));
  }
}

TEST_F(WitnessTest, DoubledContributionIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    Sum sum = sum_of_all();
    sum.add(any());
    ASSERT_FALSE(passes(sum));
  }
}

TEST_F(WitnessTest, MissingContributionIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    const size_t missing = random_() % contributions_.size();
    Sum sum(n_);
    for (size_t c = 0; c < contributions_.size(); ++c) {
      if (c != missing) sum.add(contributions_[c]);
    }
    ASSERT_FALSE(passes(sum));
  }
}

TEST_F(WitnessTest, StaleContributionIsCaught) {
  for (int i = 0; i < kCases; ++i) {
    new_case();
    MaskInput before = input_;
    before.seq -= 2;
    // Half of the time the very same words: then the sum is right and only its history is not.
    const int worker = static_cast<int>(random_() % contributions_.size());
    Contribution& fresh = contributions_[static_cast<size_t>(worker)];
    fresh = contribute(worker, before, i % 2 == 0 ? random_words(n_) : fresh.words);
    ASSERT_FALSE(passes(sum_of_all()));
  }
}

// One worker counted twice and another not at all, even where their words are equal.
TEST_F(WitnessTest, OneWorkerInPlaceOfAnotherIsCaught) {
  int tried = 0;
  for (int i = 0; i < kCases; ++i) {
    new_case();
    if (workers_ < 2) continue;
    contributions_[0] = contributions_[1];
    ASSERT_FALSE(passes(sum_of_all()));
    ++tried;
  }
  EXPECT_GT(tried, kCases / 2);
}

TEST_F(WitnessTest, DisagreementAboutAnyFieldIsCaught) {  // [WIT-8]
  for (int i = 0; i < kCases; ++i) {
    new_case();
    MaskInput other = input_;
    switch (i % 9) {
      case 0: other.epoch ^= 1U << (random_() % 32); break;
      case 1: other.seq ^= 1U << (random_() % 32); break;
      case 2: other.slot = static_cast<uint16_t>(other.slot ^ (1U << (random_() % 16))); break;
      case 3: other.op ^= 1; break;
      case 4: other.type = static_cast<uint8_t>(other.type ^ (1U << (random_() % 3))); break;
      case 5: other.stage = static_cast<uint8_t>(other.stage ^ (1U << (random_() % 8))); break;
      case 6: other.count ^= uint64_t{1} << (random_() % 64); break;
      case 7: other.first ^= uint64_t{1} << (random_() % 64); break;
      default: other.exponents_hash ^= uint64_t{1} << (random_() % 64); break;
    }
    const int worker = static_cast<int>(random_() % contributions_.size());
    Contribution& differing = contributions_[static_cast<size_t>(worker)];
    differing = contribute(worker, other, differing.words);
    ASSERT_FALSE(passes(sum_of_all())) << "field " << i % 9;
  }
}

TEST_F(WitnessTest, CoefficientsAreOddAndDistinct) {  // [WIT-2]
  std::set<uint32_t> seen;
  for (size_t i = 0; i < kMaxWords; ++i) {
    std::vector<uint8_t> unit(4 * kMaxWords, 0);
    put_word(unit, i, 1);
    const uint32_t coefficient = witness_.sum(unit.data(), kMaxWords);
    EXPECT_EQ(coefficient % 2, 1U) << i;
    seen.insert(coefficient);
  }
  EXPECT_EQ(seen.size(), kMaxWords);
}

TEST_F(WitnessTest, SumIsLinear) {
  std::vector<uint32_t> coefficients(kMaxWords);
  for (size_t i = 0; i < kMaxWords; ++i) {
    std::vector<uint8_t> unit(4 * kMaxWords, 0);
    put_word(unit, i, 1);
    coefficients[i] = witness_.sum(unit.data(), kMaxWords);
  }
  for (size_t n = 0; n <= kMaxWords; ++n) {
    const std::vector<uint8_t> words = random_words(n);
    uint32_t expected = 0;
    for (size_t i = 0; i < n; ++i) expected += coefficients[i] * word_at(words, i);
    ASSERT_EQ(witness_.sum(words.data(), n), expected) << n << " words";
  }
}

TEST_F(WitnessTest, DependsOnTheSecretAlone) {
  const Witness same(0x1122334455667788U, 0x99aabbccddeeff00U, 2 * kMaxWords);
  const Witness other(0x1122334455667788U, 0x99aabbccddeeff01U, kMaxWords);
  const std::vector<uint8_t> words(4 * kMaxWords, 0x5a);
  input_ = random_input();
  EXPECT_EQ(same.sum(words.data(), kMaxWords), witness_.sum(words.data(), kMaxWords)) << "not on the largest chunk";
  EXPECT_NE(other.sum(words.data(), kMaxWords), witness_.sum(words.data(), kMaxWords));
}

// The documented blind spot of odd coefficients modulo 2^32.
TEST_F(WitnessTest, EvenNumbersOfTopBitsPass) {
  new_case();
  n_ = 2;
  contributions_ = {contribute(0, input_, random_words(2))};
  workers_ = 1;
  const Sum sum = sum_of_all();
  std::vector<uint8_t> words = sum.words();
  words[0] ^= 0x80;
  ASSERT_FALSE(passes(sum.witness(), words));
  words[4] ^= 0x80;
  EXPECT_TRUE(passes(sum.witness(), words));
}

TEST_F(WitnessTest, TooManyWordsAssert) {
  const std::vector<uint8_t> words(4 * (kMaxWords + 1), 0);
  EXPECT_DEATH(witness_.sum(words.data(), kMaxWords + 1), "max_words");
}

// ---- guarded words: what a maximum is taken of ----

class GuardTest : public ::testing::Test {
 protected:
  std::vector<uint8_t> guarded(const std::vector<uint32_t>& values, uint32_t mask) const {
    std::vector<uint8_t> words(4 * values.size());
    for (size_t i = 0; i < values.size(); ++i) put_word(words, i, values[i]);
    witness_.guard(words.data(), values.size(), mask);
    return words;
  }
  Random random_{11};
  Witness witness_{0x1122334455667788U, 0x99aabbccddeeff00U, kMaxWords};
};

TEST_F(GuardTest, TheMaximumOfGuardedWordsIsIntactAndOfTheLargestValue) {  // [MAX-2]
  for (int round = 0; round < 200; ++round) {
    const auto mask = static_cast<uint32_t>(random_());
    std::vector<uint32_t> a(300), b(300);
    for (auto& v : a) v = random_() % 256;
    for (auto& v : b) v = random_() % 256;
    const std::vector<uint8_t> x = guarded(a, mask), y = guarded(b, mask);
    std::vector<uint8_t> largest(x.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const auto left = static_cast<int32_t>(word_at(x, i)), right = static_cast<int32_t>(word_at(y, i));
      put_word(largest, i, static_cast<uint32_t>(std::max(left, right)));
      EXPECT_EQ(Witness::guarded_value(word_at(largest, i)), std::max(a[i], b[i]));
    }
    EXPECT_TRUE(witness_.intact(largest.data(), a.size(), mask));
  }
}

TEST_F(GuardTest, EveryFlippedBitIsSeen) {  // [MAX-3]
  for (uint32_t value = 0; value < 256; ++value) {
    for (size_t bit = 0; bit < 32; ++bit) {
      std::vector<uint8_t> words = guarded({7, value, 7}, 12345);
      words[4 + bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
      EXPECT_FALSE(witness_.intact(words.data(), 3, 12345)) << "value " << value << ", bit " << bit;
    }
  }
}

TEST_F(GuardTest, WordsOfAnotherUsePositionOrJobAreSeen) {
  int missed = 0;
  const Witness other(1, 2, kMaxWords);
  for (int i = 0; i < kCases; ++i) {
    const auto value = static_cast<uint32_t>(random_() % 255);
    const auto mask = static_cast<uint32_t>(random_());
    std::vector<uint8_t> words = guarded({value, value + 1}, mask);
    missed += witness_.intact(words.data(), 2, static_cast<uint32_t>(random_())) ? 1 : 0;
    missed += other.intact(words.data(), 2, mask) ? 1 : 0;
    std::swap_ranges(words.begin(), words.begin() + 4, words.begin() + 4);
    missed += witness_.intact(words.data(), 2, mask) ? 1 : 0;
  }
  EXPECT_EQ(missed, 0);  // expected: kCases * 3 * 2^-44
}

// Computed by a program of its own from the protocol's text and the definition of SipHash-2-4. [WIT-10, WIT-11, WIT-12]
TEST(Witness, KnownAnswers) {
  const Witness witness(0x0706050403020100U, 0x0f0e0d0c0b0a0908U, kMaxWords);
  std::vector<uint8_t> words(4 * 260);
  put_word(words, 0, 5);
  put_word(words, 1, 0xfffffffeU);
  put_word(words, 256 + 3, 7);
  EXPECT_EQ(witness.contribution(2, 0x537e93efU, words.data(), 260), 0xb947360dU);
}

}  // namespace
}  // namespace switchml
