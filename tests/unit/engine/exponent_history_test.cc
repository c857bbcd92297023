#include "engine/exponent_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace switchml {
namespace {

constexpr uint64_t kScalar = 1, kLayer = 2, kBarrier = 3;

/// A stream in which every collective but barriers is a group of one block, and is over before the next one begins.
class Stream {
 public:
  explicit Stream(size_t lag = 1) : history_(lag) {}

  /// Calls one; returns the exponent predicted, or -1.
  int call(uint64_t kind, uint8_t exponent) {
    const auto prediction = open(kind);
    const int predicted = prediction.exponents == nullptr ? -1 : prediction.exponents[0];
    trusted = prediction.trusted;
    history_.close(history_.last(), &exponent, predicted == exponent);
    return predicted;
  }
  ExponentHistory::Prediction open(uint64_t kind) {
    if (kind == kBarrier) return history_.open(kind, 0, 0);
    return history_.open(kind, group_++, 1);
  }
  ExponentHistory& history() { return history_; }

  bool trusted = false;

 private:
  ExponentHistory history_;
  uint64_t group_ = 0;
};

TEST(ExponentHistory, KnowsNothingOfTheFirstOfAKind) {
  Stream stream;
  EXPECT_EQ(stream.call(kScalar, 120), -1);
  EXPECT_EQ(stream.call(kLayer, 110), -1);
  EXPECT_EQ(stream.call(kScalar, 121), 120);
  EXPECT_EQ(stream.call(kScalar, 122), 121);
  EXPECT_EQ(stream.call(kLayer, 111), 110);
}

TEST(ExponentHistory, LooksAtTheSamePlaceOfAnEarlierStep) {
  Stream stream;
  const std::vector<uint8_t> layers = {100, 110, 120, 130};  // of the same size, then a scalar
  for (int step = 0; step < 4; ++step) {
    for (const uint8_t exponent : layers) {
      const int predicted = stream.call(kLayer, exponent);
      if (step < 2) continue;
      EXPECT_EQ(predicted, exponent);
    }
    stream.call(kScalar, 90);
  }
}

TEST(ExponentHistory, CollectivesWithoutExponentsTellPlacesApart) {
  Stream stream;
  for (int step = 0; step < 3; ++step) {
    stream.call(kLayer, 100);
    EXPECT_EQ(stream.open(kBarrier).exponents, nullptr);
    const int predicted = stream.call(kLayer, 140);
    if (step < 2) continue;
    EXPECT_EQ(predicted, 140);
  }
  EXPECT_EQ(stream.call(kLayer, 100), 100);
}

// What is closer than the lag may be known here and not yet elsewhere.
TEST(ExponentHistory, NeverLooksAtGroupsThatCanBeUnfinished) {
  Stream stream(3);
  for (uint8_t i = 0; i < 20; ++i) {
    const int predicted = stream.call(kScalar, static_cast<uint8_t>(100 + i));
    EXPECT_EQ(predicted, i < 3 ? -1 : 100 + i - 3);
  }
}

// The same stream with results that come at once, or as late as they can, gives the same predictions.
TEST(ExponentHistory, ItDoesNotMatterWhenResultsCome) {
  constexpr size_t kLag = 4;
  const auto predictions = [](size_t delay) {
    ExponentHistory history(kLag);
    std::vector<int> predicted;
    std::vector<std::pair<uint64_t, uint8_t>> open;  // place and exponent
    for (uint64_t i = 0; i < 600; ++i) {
      const uint64_t kind = 1 + (i * i % 7) % 3;
      const auto prediction = history.open(kind, i, 1);
      predicted.push_back(prediction.exponents == nullptr ? -1 : prediction.exponents[0] * 2 + prediction.trusted);
      open.emplace_back(history.last(), static_cast<uint8_t>(i * 37 % 200));
      const size_t keep = std::min(delay, open.size());
      while (open.size() > keep) {
        const auto [place, exponent] = open.front();
        const int guess = predicted[place];
        history.close(place, &exponent, guess >= 0 && guess / 2 == exponent);
        open.erase(open.begin());
      }
    }
    return predicted;
  };
  const std::vector<int> at_once = predictions(0);
  EXPECT_EQ(predictions(1), at_once);
  EXPECT_EQ(predictions(kLag - 1), at_once);
  EXPECT_GT(std::count_if(at_once.begin(), at_once.end(), [](int p) { return p >= 0; }), 500);
}

TEST(ExponentHistory, IsNotTrustedAfterFailuresAndIsAgainWhenItWouldHaveBeenRight) {
  Stream stream;
  stream.call(kScalar, 100);
  std::vector<bool> trusted;
  for (const uint8_t exponent : {100, 100, 90, 100, 90, 90, 90, 90}) {
    stream.call(kScalar, exponent);
    trusted.push_back(stream.trusted);
  }
  //                                         3 after a hit, 3, then misses: 2, 1, 0, then hits: 1, 2
  EXPECT_EQ(trusted, (std::vector<bool>{true, true, true, true, false, false, false, true}));
}

TEST(ExponentHistory, ForgetsTheOldestAndIgnoresResultsOfWhatItForgot) {
  Stream stream;
  stream.open(kScalar);
  const uint64_t place = stream.history().last();
  for (size_t i = 0; i < ExponentHistory::kRemembered; ++i) stream.open(kBarrier);
  const uint8_t exponent = 100;
  stream.history().close(place, &exponent, true);
  EXPECT_EQ(stream.call(kScalar, 100), -1);
}

TEST(ExponentHistory, TheModelMayBeTheEntryThatIsReplaced) {
  Stream stream;
  EXPECT_EQ(stream.call(kScalar, 77), -1);
  for (size_t i = 1; i < ExponentHistory::kRemembered; ++i) stream.open(kBarrier);
  EXPECT_EQ(stream.call(kScalar, 78), 77);
}

TEST(ExponentHistory, AKindWithAnotherNumberOfBlocksIsNoModel) {
  ExponentHistory history(1);
  const std::vector<uint8_t> exponents(3, 50);
  history.open(kLayer, 0, 3);
  history.close(0, exponents.data(), false);
  EXPECT_EQ(history.open(kLayer, 1, 2).exponents, nullptr);
  const auto prediction = history.open(kLayer, 2, 3);
  ASSERT_NE(prediction.exponents, nullptr);
  EXPECT_EQ(std::vector<uint8_t>(prediction.exponents, prediction.exponents + 3), exponents);
}

}  // namespace
}  // namespace switchml
