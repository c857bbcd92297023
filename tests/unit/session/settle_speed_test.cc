#include <gtest/gtest.h>

#include "session/settle.h"

namespace switchml {
namespace {

using Exchange = SpeedChoice::Exchange;

PathNeeds needs_of(uint64_t rate, const std::string& why_no_tcp = "", const std::string& why_no_rdma = "") {
  PathNeeds needs;
  needs.rate = rate;
  needs.why_no_tcp = why_no_tcp;
  needs.why_no_rdma = why_no_rdma;
  return needs;
}

TEST(SettleSpeed, TcpIsForLinksThatAreFastWhereItPasses) {  // [RATE-7]
  const SpeedTerms terms{true, false, true, true};
  EXPECT_EQ(choose_by_speed(needs_of(1500), terms).exchange, Exchange::kForTcp);
  EXPECT_EQ(choose_by_speed(needs_of(1499), terms).exchange, Exchange::kForSlots);
  EXPECT_EQ(choose_by_speed(needs_of(100000, "somewhere: Connection timed out"), terms).exchange, Exchange::kForSlots);
  EXPECT_EQ(choose_by_speed(needs_of(100000), {false, false, true, true}).exchange, Exchange::kForSlots);
}

TEST(SettleSpeed, CardsComeFirstAndTcpIsKnownToBeNext) {  // [RATE-9, RATE-10]
  const SpeedTerms terms{true, true, true, true};
  for (const uint64_t rate : {100U, 100000U}) {
    const SpeedChoice choice = choose_by_speed(needs_of(rate), terms);
    EXPECT_EQ(choice.exchange, Exchange::kForRdma);
    EXPECT_EQ(choice.tcp_is_better, rate > 1500);
  }
  EXPECT_EQ(choose_by_speed(needs_of(100000, "", "rank 1: no card"), terms).exchange, Exchange::kForTcp);
  EXPECT_FALSE(choose_by_speed(needs_of(100000, "x"), terms).tcp_is_better);
}

TEST(SettleSpeed, ASessionStaysWhereItIsLateOrNothingMayBeChosen) {  // [RATE-1]
  EXPECT_EQ(choose_by_speed(needs_of(100000), {true, true, true, false}).exchange, Exchange::kNone);
  EXPECT_EQ(choose_by_speed(needs_of(100), {true, false, false, true}).exchange, Exchange::kNone);
}

}  // namespace
}  // namespace switchml
