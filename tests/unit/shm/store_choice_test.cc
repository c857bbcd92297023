// Progress made up from what a chunk costs written either way.
#include "shm/store_choice.h"

#include <gtest/gtest.h>

namespace switchml::shm {
namespace {

/// The smallest step that the clock is seen to make.
Duration step_of_clock() {
  Duration least = seconds(1);
  for (int i = 0; i < 1000; ++i) {
    const Time begin = monotonic_now();
    Duration step{};
    while (step == Duration(0)) step = monotonic_now() - begin;
    least = std::min(least, step);
  }
  return least;
}

// Lines that this core has long forgotten take longer than one that it has just read.
TEST(LatencyTimer, ALineFromMemoryTakesLongerThanOneInTheCache) {
  if (step_of_clock() > nanoseconds(60)) GTEST_SKIP() << "the clock is too coarse to tell";
  constexpr size_t kWords = size_t{1} << 23;  // 64 MiB
  const std::vector<std::atomic<uint64_t>> words(kWords);
  std::vector<Duration> first;
  std::vector<Duration> again;
  size_t at = 1;
  for (int i = 0; i < 1001; ++i) {
    at = (at * 2654435761U + 12345) % kWords;
    first.push_back(time_to_read(words[at]));
    again.push_back(time_to_read(words[at]));
  }
  const auto median = [](std::vector<Duration> of) {
    std::nth_element(of.begin(), of.begin() + 500, of.end());
    return of[500];
  };
  EXPECT_LT(median(again), microseconds(100));
  EXPECT_GT(median(first), median(again));
}

using Trial = NonTemporalTrial;
using std::chrono::microseconds;

struct Cost {
  Duration cached;
  Duration bypassing;
};
constexpr Cost kShared{microseconds(25), microseconds(43)};
constexpr Cost kApart{microseconds(130), microseconds(54)};
/// Of a call of 100 MiB.
constexpr size_t kCall = 800;
/// By so many chunks after its beginning a trial is over, in one collective.
constexpr size_t kTrial = Trial::kLegs * (Trial::kSkipped + Trial::kTimed + 2 * 8);

/// Ranks that write chunks as the trial says, of which the last eight written the other way are still on their way.
struct Stream {
  /// Collectives of `each` chunks until `chunks` are finished; how many of them bypassed the caches.
  size_t run(size_t chunks, const Cost& cost, bool slow_lines, size_t each = kCall) {
    size_t bypassing = 0;
    for (size_t done = 0; done < chunks; done += each) {
      now += seconds(1);  // the caller computes
      trial.begin(each);
      for (size_t i = 0; i < each;) {
        const size_t burst = 1 + (i * 7 + done) % 8;
        for (size_t k = 0; k < burst; ++k) now += history[(i + k) % 8] ? cost.bypassing : cost.cached;
        for (size_t k = 0; k < burst; ++k) bypassing += history[(i + k) % 8] ? 1 : 0;
        for (size_t k = 0; k < burst; ++k) history[(i + k) % 8] = trial.bypasses();
        trial.finished(burst, now, slow_lines);
        i += burst;
      }
    }
    return bypassing;
  }
  NonTemporalTrial trial;
  Time now{seconds(1000)};
  bool history[8] = {};
};

TEST(NonTemporalTrial, TriesNothingWhileLinesAreFast) {
  Stream stream;
  EXPECT_EQ(stream.run(100 * kCall, kShared, false), 0U);
  EXPECT_EQ(stream.run(10 * kCall, kApart, false), 0U) << "chunks take long for other reasons";
}

TEST(NonTemporalTrial, GoesPastCachesThatAreNotShared) {
  Stream stream;
  stream.run(kCall, kApart, true);
  EXPECT_TRUE(stream.trial.bypasses()) << "the first large tensor shows it";
  EXPECT_GT(stream.run(100 * kCall, kApart, true), 98 * kCall);
}

TEST(NonTemporalTrial, FollowsCoresThatAreMoved) {
  Stream stream;
  stream.run(3 * kCall, kShared, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(stream.run(kCall, kApart, true), kCall / 2) << "at once";
    EXPECT_LE(stream.run(kCall, kShared, false), 16U) << "at once, but for those on their way";
  }
}

TEST(NonTemporalTrial, LinesThatAreSlowAreNotEnough) {
  Stream stream;
  const size_t bypassing = stream.run(100 * kCall, kShared, true);
  EXPECT_FALSE(stream.trial.bypasses());
  EXPECT_GT(bypassing, 0U) << "it tries";
  EXPECT_LT(bypassing, 100 * kCall / 50);
}

TEST(NonTemporalTrial, ChoosesAgainWhileLinesStaySlow) {
  Stream stream;
  stream.run(kCall, kApart, true);
  ASSERT_TRUE(stream.trial.bypasses());
  stream.run(Trial::kBetween + kCall, kShared, true);
  EXPECT_FALSE(stream.trial.bypasses());
}

TEST(NonTemporalTrial, DoesNotChangeForWhatIsAsGood) {
  Stream stream;
  stream.run(50 * kCall, {microseconds(40), microseconds(37)}, true);
  EXPECT_FALSE(stream.trial.bypasses());
}

TEST(NonTemporalTrial, SmallCollectivesAreNeitherMeasuredNorTriedOn) {
  Stream stream;
  EXPECT_EQ(stream.run(10 * Trial::kBetween, kApart, true, Trial::kLong - 1), 0U);
  EXPECT_FALSE(stream.trial.bypasses());
  // In the middle of a trial of the other way.
  stream.trial.begin(kCall);
  for (size_t i = 0; i < kCall && !stream.trial.bypasses(); ++i)
    stream.trial.finished(1, stream.now += microseconds(25), true);
  ASSERT_TRUE(stream.trial.bypasses());
  stream.trial.begin(Trial::kLong - 1);
  EXPECT_FALSE(stream.trial.bypasses());
  stream.trial.begin(kCall);
  EXPECT_TRUE(stream.trial.bypasses()) << "it goes on with the next large one";
}

// What lies between two collectives, a second each here, would drown any difference.
TEST(NonTemporalTrial, CollectivesOfHardlyMoreThanALegAreEnough) {
  Stream stream;
  stream.run(40 * Trial::kLong, kApart, true, Trial::kLong);
  EXPECT_TRUE(stream.trial.bypasses());
}

TEST(NonTemporalTrial, SomebodyElsesTimeSliceDoesNotDecideOne) {
  for (size_t slice = 0; slice < kTrial; ++slice) {
    Stream stream;
    stream.trial.begin(kCall);
    for (size_t chunk = 0; chunk < kTrial; ++chunk) {
      stream.now += stream.trial.bypasses() ? kShared.bypassing : kShared.cached;
      if (chunk == slice) stream.now += milliseconds(4);
      stream.trial.finished(1, stream.now, true);
    }
    EXPECT_FALSE(stream.trial.bypasses()) << slice;
  }
}

// ---- the score of lines ----

/// The score after `lines`, of which so many of each hundred, spread evenly, are slow.
int score_after(int score, int lines, int of_hundred) {
  for (int i = 0; i < lines; ++i) {
    const bool slow = (i + 1) * of_hundred / 100 > i * of_hundred / 100;
    score = LatencyScore::after(score, LatencyScore::kSlow - (slow ? Duration(0) : nanoseconds(1)));
  }
  return score;
}

TEST(LatencyScore, SettlesWhereMoreThanAQuarterIsSlow) {
  EXPECT_FALSE(LatencyScore::is_slow(0, false)) << "as memory begins";
  EXPECT_FALSE(LatencyScore::is_slow(score_after(0, 10000, 22), false));
  EXPECT_TRUE(LatencyScore::is_slow(score_after(0, 10000, 28), false));
  EXPECT_FALSE(LatencyScore::is_slow(score_after(LatencyScore::kMost, 10000, 22), true));
}

TEST(LatencyScore, TellsWithinAHundredLines) {
  EXPECT_TRUE(LatencyScore::is_slow(score_after(0, 100, 50), false)) << "half of the ranks are on the same core";
  EXPECT_FALSE(LatencyScore::is_slow(score_after(LatencyScore::kMost, 100, 0), true));
  EXPECT_FALSE(LatencyScore::is_slow(score_after(0, 10, 100), false)) << "one time slice";
}

TEST(LatencyScore, StaysWithinItsBounds) {
  EXPECT_EQ(score_after(0, 5, 0), 0);
  EXPECT_EQ(score_after(LatencyScore::kMost, 5, 100), LatencyScore::kMost);
}

TEST(LatencyScore, DoesNotChangeItsMindInBetween) {
  for (int score = LatencyScore::kMost / 4 + 1; score <= LatencyScore::kMost * 3 / 4; ++score) {
    EXPECT_TRUE(LatencyScore::is_slow(score, true)) << score;
    EXPECT_FALSE(LatencyScore::is_slow(score, false)) << score;
  }
}

}  // namespace
}  // namespace switchml::shm
