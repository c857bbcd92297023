#include <gtest/gtest.h>

#include "session/settle.h"

namespace switchml {
namespace {

using Wanted = SpeedChoice::Exchange;

PathNeeds needs_of(uint64_t rate, const std::string& why_no_tcp = "", const std::string& why_no_rdma = "") {
  PathNeeds needs;
  needs.rate = rate;
  needs.why_no_tcp = why_no_tcp;
  needs.why_no_rdma = why_no_rdma;
  return needs;
}

TEST(SettleSpeed, TcpIsForLinksThatAreFastWhereItPasses) {  // [RATE-7]
  const SpeedTerms terms{true, false, true, true};
  EXPECT_EQ(choose_by_speed(needs_of(1500), terms).exchange, Wanted::kForTcp);
  EXPECT_EQ(choose_by_speed(needs_of(1499), terms).exchange, Wanted::kForSlots);
  EXPECT_EQ(choose_by_speed(needs_of(100000, "somewhere: Connection timed out"), terms).exchange, Wanted::kForSlots);
  EXPECT_EQ(choose_by_speed(needs_of(100000), {false, false, true, true}).exchange, Wanted::kForSlots);
}

TEST(SettleSpeed, CardsComeFirstAndTcpIsKnownToBeNext) {  // [RATE-9, RATE-10]
  const SpeedTerms terms{true, true, true, true};
  for (const uint64_t rate : {100U, 100000U}) {
    const SpeedChoice choice = choose_by_speed(needs_of(rate), terms);
    EXPECT_EQ(choice.exchange, Wanted::kForRdma);
    EXPECT_EQ(choice.tcp_is_better, rate > 1500);
  }
  EXPECT_EQ(choose_by_speed(needs_of(100000, "", "rank 1: no card"), terms).exchange, Wanted::kForTcp);
  EXPECT_FALSE(choose_by_speed(needs_of(100000, "x"), terms).tcp_is_better);
}

TEST(SettleSpeed, ASessionStaysWhereItIsLateOrNothingMayBeChosen) {  // [RATE-1]
  EXPECT_EQ(choose_by_speed(needs_of(100000), {true, true, true, false}).exchange, Wanted::kNone);
  EXPECT_EQ(choose_by_speed(needs_of(100), {true, false, false, true}).exchange, Wanted::kNone);
}

}  // namespace
}  // namespace switchml
