#include "failover/failback_pace.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

constexpr Time kNow = Time{} + seconds(1000);

Duration pause_of(FailbackPace pace) {
  pace.wait(kNow);
  return pace.next() - kNow;
}

TEST(FailbackPace, AnAttemptASecondWhereNothingSpeaksAgainstIt) {
  FailbackPace pace;
  pace.lost(kNow);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pause_of(pace), seconds(1));
}

TEST(FailbackPace, PausesGrowToAMinute) {
  FailbackPace pace;
  for (const int expected : {2, 4, 8, 16, 32, 60, 60}) {
    pace.wait_longer(kNow);
    EXPECT_EQ(pace.next(), kNow + seconds(expected));
  }
}

TEST(FailbackPace, ASwitchThatIsSoonLostAgainIsReturnedToLater) {
  FailbackPace pace;
  pace.lost(kNow);
  pace.returned(kNow);
  pace.lost(kNow + FailbackPace::kSteady - seconds(1));
  EXPECT_EQ(pause_of(pace), seconds(2));
  pace.lost(kNow + FailbackPace::kSteady);
  EXPECT_EQ(pause_of(pace), seconds(1));
}

}  // namespace
}  // namespace switchml
