#include "failover/return_pace.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

constexpr Time kNow = Time{} + seconds(1000);

Duration pause_of(ReturnPace pace) {
  pace.wait(kNow);
  return pace.next() - kNow;
}

TEST(ReturnPace, AnAttemptASecondWhereNothingSpeaksAgainstIt) {
  ReturnPace pace;
  pace.lost(kNow);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pause_of(pace), seconds(1));
}

TEST(ReturnPace, PausesGrowToAMinute) {
  ReturnPace pace;
  for (const int expected : {2, 4, 8, 16, 32, 60, 60}) {
    pace.wait_longer(kNow);
    EXPECT_EQ(pace.next(), kNow + seconds(expected));
  }
}

TEST(ReturnPace, ASwitchThatIsSoonLostAgainIsReturnedToLater) {
  ReturnPace pace;
  pace.lost(kNow);
  pace.returned(kNow);
  pace.lost(kNow + ReturnPace::kSteady - seconds(1));
  EXPECT_EQ(pause_of(pace), seconds(2));
  pace.lost(kNow + ReturnPace::kSteady);
  EXPECT_EQ(pause_of(pace), seconds(1));
}

}  // namespace
}  // namespace switchml
