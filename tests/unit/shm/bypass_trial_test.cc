// Progress made up from what a chunk costs written either way.
#include "shm/bypass_trial.h"

#include <gtest/gtest.h>

namespace switchml::shm {
namespace {

using Trial = BypassTrial;
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
  size_t run(size_t chunks, const Cost& cost, size_t each = kCall) {
    size_t bypassing = 0;
    for (size_t done = 0; done < chunks; done += each) {
      now += seconds(1);  // the caller computes
      trial.begin(each);
      for (size_t i = 0; i < each;) {
        const size_t burst = 1 + (i * 7 + done) % 8;
        for (size_t k = 0; k < burst; ++k) now += history[(i + k) % 8] ? cost.bypassing : cost.cached;
        for (size_t k = 0; k < burst; ++k) bypassing += history[(i + k) % 8] ? 1 : 0;
        for (size_t k = 0; k < burst; ++k) history[(i + k) % 8] = trial.bypasses();
        trial.finished(burst, now);
        i += burst;
      }
    }
    return bypassing;
  }
  BypassTrial trial;
  Time now{seconds(1000)};
  bool history[8] = {};
};

TEST(BypassTrial, StaysInCachesThatAreShared) {
  Stream stream;
  EXPECT_FALSE(stream.trial.bypasses());
  const size_t bypassing = stream.run(100 * kCall, kShared);
  EXPECT_FALSE(stream.trial.bypasses());
  EXPECT_GT(bypassing, 0U) << "it tries";
  EXPECT_LT(bypassing, 100 * kCall / 50);
}

TEST(BypassTrial, GoesPastThemWhereTheyAreNot) {
  Stream stream;
  stream.run(kCall, kApart);
  EXPECT_TRUE(stream.trial.bypasses()) << "the first large tensor shows it";
  EXPECT_GT(stream.run(100 * kCall, kApart), 93 * kCall);
}

TEST(BypassTrial, FollowsCoresThatAreMoved) {
  Stream stream;
  stream.run(3 * kCall, kShared);
  ASSERT_FALSE(stream.trial.bypasses());
  stream.run(kCall, kApart);
  EXPECT_TRUE(stream.trial.bypasses()) << "at once, as chunks have become slow";
  stream.run(Trial::kBetweenBypassing + kTrial + kCall, kShared);
  EXPECT_FALSE(stream.trial.bypasses()) << "by the next trial";
}

TEST(BypassTrial, DoesNotChangeForWhatIsAsGood) {
  Stream stream;
  stream.run(50 * kCall, {microseconds(40), microseconds(37)});
  EXPECT_FALSE(stream.trial.bypasses());
}

TEST(BypassTrial, SmallCollectivesAreNeitherMeasuredNorTriedOn) {
  Stream stream;
  EXPECT_EQ(stream.run(10 * Trial::kBetween, kApart, Trial::kLong - 1), 0U);
  EXPECT_FALSE(stream.trial.bypasses());
  // In the middle of a trial of the other way.
  stream.trial.begin(kCall);
  for (size_t i = 0; i < kCall && !stream.trial.bypasses(); ++i)
    stream.trial.finished(1, stream.now += microseconds(25));
  ASSERT_TRUE(stream.trial.bypasses());
  stream.trial.begin(Trial::kLong - 1);
  EXPECT_FALSE(stream.trial.bypasses());
  stream.trial.begin(kCall);
  EXPECT_TRUE(stream.trial.bypasses()) << "it goes on with the next large one";
}

// What lies between two collectives, a second each here, would drown any difference.
TEST(BypassTrial, CollectivesOfHardlyMoreThanALegAreEnough) {
  Stream stream;
  stream.run(40 * Trial::kLong, kApart, Trial::kLong);
  EXPECT_TRUE(stream.trial.bypasses());
}

TEST(BypassTrial, SomebodyElsesTimeSliceBringsNoTrial) {
  Stream stream;
  stream.run(2 * kCall, kShared);
  size_t bypassing = 0;
  for (int i = 0; i < 3; ++i) {
    stream.trial.begin(kCall);
    for (size_t chunk = 0; chunk < kCall; ++chunk) {
      stream.now += chunk == kCall / 2 ? milliseconds(4) : kShared.cached;
      stream.trial.finished(1, stream.now);
      bypassing += stream.trial.bypasses() ? 1 : 0;
    }
  }
  EXPECT_EQ(bypassing, 0U);
}

TEST(BypassTrial, SomebodyElsesTimeSliceDoesNotDecideOne) {
  for (size_t slice = 0; slice < kTrial; ++slice) {
    Stream stream;
    stream.trial.begin(kCall);
    for (size_t chunk = 0; chunk < kTrial; ++chunk) {
      stream.now += stream.trial.bypasses() ? kShared.bypassing : kShared.cached;
      if (chunk == slice) stream.now += milliseconds(4);
      stream.trial.finished(1, stream.now);
    }
    EXPECT_FALSE(stream.trial.bypasses()) << slice;
  }
}

}  // namespace
}  // namespace switchml::shm
