#include "timer/congestion_window.h"

#include <gtest/gtest.h>

#include <memory>

#include "bottleneck.h"

namespace switchml {
namespace {

constexpr Duration kRoundTrip = milliseconds(100);

// The average window where every 1/p-th chunk is lost, by the chunk, over `losses` of them.
double average_window(double p, Duration round_trip, int flows, int losses) {
  CongestionWindow window(1, 1 << 20, flows);
  Time now{};
  const auto every = static_cast<int>(1 / p);
  double sum = 0, answered = 0;
  bool lost = false;
  int until_loss = every;
  for (int loss = 0; loss < losses;) {
    const int chunks = window.chunks();
    for (int i = 0; i < chunks; ++i) {
      now += round_trip / chunks;
      if (--until_loss == 0) {
        until_loss = every;
        ++loss;
        lost = true;
      } else {
        window.on_answered(round_trip, false, now);
      }
    }
    if (lost) window.on_congestion(now - round_trip / chunks, now);
    lost = false;
    if (loss > losses / 5) {
      sum += chunks;
      answered += 1;
    }
  }
  return sum / answered;
}

// Table 1 of RFC 9438: by the chance of a loss, at 0.1 s.
TEST(CongestionWindow, IsAsLargeAsTheStandardSays) {
  for (const auto& [p, expected] : {std::pair{1e-2, 12.0}, {1e-3, 38.0}, {1e-4, 187.0}, {1e-5, 1054.0}}) {
    EXPECT_NEAR(average_window(p, kRoundTrip, 1, 200), expected, 0.15 * expected) << p;
  }
}

TEST(CongestionWindow, SeveralFlowsHaveTogetherWhatOneWould) {
  for (const Duration round_trip : {kRoundTrip, Duration(milliseconds(1))}) {
    const double alone = average_window(1e-4, round_trip, 1, 100);
    EXPECT_NEAR(average_window(1e-4, round_trip, 2, 100), alone / 2, 0.1 * alone / 2);
    EXPECT_NEAR(average_window(1e-4, round_trip, 4, 100), alone / 4, 0.1 * alone / 4);
  }
}

/// Answers of one round trip, all of it long.
void round_of(CongestionWindow* window, Duration round_trip, Time* now, bool app_limited = false) {
  const int chunks = window->chunks();
  for (int i = 0; i < chunks; ++i) {
    *now += round_trip / chunks;
    window->on_answered(round_trip, app_limited, *now);
  }
}

TEST(CongestionWindow, DoublesInTheBeginningUpToTheMost) {
  CongestionWindow window(2, 100, 1);
  Time now{};
  for (const int expected : {10, 20, 40, 80, 100, 100}) {
    EXPECT_EQ(window.chunks(), expected);
    round_of(&window, milliseconds(1), &now);
  }
}

TEST(CongestionWindow, BeginsWithTenOfAllFlowsAndAtLeastWithTheLeast) {
  EXPECT_EQ(CongestionWindow(2, 100, 2).chunks(), 5);
  EXPECT_EQ(CongestionWindow(2, 100, 16).chunks(), 2);
  EXPECT_EQ(CongestionWindow(2, 4, 1).chunks(), 4);
}

TEST(CongestionWindow, DoesNotGrowWhereOthersLimit) {
  CongestionWindow window(2, 100, 1);
  Time now{};
  for (int i = 0; i < 10; ++i) round_of(&window, milliseconds(1), &now, true);
  EXPECT_EQ(window.chunks(), 10);
}

TEST(CongestionWindow, StopsDoublingWhereRoundTripsBecomeLong) {
  CongestionWindow window(2, 10000, 1);
  Time now{};
  round_of(&window, milliseconds(1), &now);
  round_of(&window, milliseconds(1), &now);
  for (int i = 0; i < 7; ++i) round_of(&window, milliseconds(2), &now);
  const int then = window.chunks();
  EXPECT_LE(then, 200) << "seven rounds that double would make it 5,120";
  round_of(&window, milliseconds(2), &now);
  EXPECT_LE(window.chunks(), then + 1);
}

TEST(CongestionWindow, DoublesAgainWhereALongRoundTripWasSomethingElse) {
  CongestionWindow window(2, 10000, 1);
  Time now{};
  round_of(&window, milliseconds(1), &now);
  round_of(&window, milliseconds(1), &now);
  round_of(&window, milliseconds(2), &now);
  round_of(&window, milliseconds(1), &now);
  const int then = window.chunks();
  round_of(&window, milliseconds(1), &now);
  EXPECT_GE(window.chunks(), 2 * then - 1);
}

TEST(CongestionWindow, ShrinksOnceForAllThatARoundTripLost) {
  CongestionWindow window(2, 1000, 1);
  Time now{};
  for (int i = 0; i < 4; ++i) round_of(&window, milliseconds(1), &now);
  ASSERT_EQ(window.chunks(), 160);
  EXPECT_TRUE(window.on_congestion(now - milliseconds(1), now));
  EXPECT_EQ(window.chunks(), 112);
  EXPECT_FALSE(window.on_congestion(now - microseconds(500), now + microseconds(10)));
  EXPECT_EQ(window.chunks(), 112);
  EXPECT_TRUE(window.on_congestion(now, now + milliseconds(1))) << "sent when it shrank";
  EXPECT_EQ(window.chunks(), 78);
}

TEST(CongestionWindow, IsNeverBelowTheLeast) {
  CongestionWindow window(2, 1000, 1);
  Time now{};
  for (int i = 0; i < 20; ++i) {
    now += milliseconds(1);
    window.on_congestion(now - microseconds(1), now);
  }
  EXPECT_EQ(window.chunks(), 2);
}

// A rank that was late for an hour says nothing about links.
TEST(CongestionWindow, DoesNotGrowByWaiting) {
  CongestionWindow window(2, 100000, 1);
  Time now{};
  for (int i = 0; i < 7; ++i) round_of(&window, milliseconds(1), &now);
  window.on_congestion(now - microseconds(1), now);
  const int before = window.chunks();
  now += seconds(3600);
  for (int i = 0; i < before; ++i) window.on_answered(seconds(3600), false, now);
  EXPECT_LE(window.chunks(), before + 2);
}

double jain(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (squares * static_cast<double>(shares.size()));
}

struct Shared {
  double fairness = 0;
  double used = 0;
  double lost = 0;  // of what was sent
};

/// Flows begin one after the other; counted is what arrives in the second half of it.
Shared share(const Link& link, const std::vector<FlowWindow*>& windows) {
  constexpr int kPackets = 2000000;
  const Duration counted = kPackets * link.packet;
  Bottleneck bottleneck(link);
  for (size_t i = 0; i < windows.size(); ++i) {
    bottleneck.add(windows[i], Time(seconds(1)) + static_cast<int>(i) * counted / 20);
  }
  const Time begin = Time(seconds(1)) + counted;
  bottleneck.run_until(begin);
  bottleneck.forget_counts();
  bottleneck.run_until(begin + counted);
  std::vector<double> shares;
  double lost = 0, all = 0;
  for (const auto& flow : bottleneck.flows()) {
    shares.push_back(static_cast<double>(flow.arrived));
    all += shares.back();
    lost += static_cast<double>(flow.lost);
  }
  return {jain(shares), all * to_seconds(link.packet) / to_seconds(counted), lost / (all + lost)};
}

Shared share_by_four(const Link& link) {
  CubicFlow flows[4];
  return share(link, {&flows[0], &flows[1], &flows[2], &flows[3]});
}

constexpr Link kDatacenter{microseconds(1), microseconds(50), 200};
constexpr Link kSlow{microseconds(100), milliseconds(10), 100};

TEST(CongestionWindow, FourFlowsShareALink) {
  for (const Link& link : {kDatacenter, kSlow}) {
    const Shared shared = share_by_four(link);
    EXPECT_GE(shared.fairness, 0.95);
    EXPECT_GE(shared.used, 0.95);
    EXPECT_LE(shared.lost, 0.05);
  }
}

TEST(CongestionWindow, FourFlowsShareALinkThatMarksAndLosesNothing) {
  for (Link link : {kDatacenter, kSlow}) {
    link.mark_above = 50;
    const Shared shared = share_by_four(link);
    EXPECT_GE(shared.fairness, 0.95);
    EXPECT_GE(shared.used, 0.9);
    EXPECT_EQ(shared.lost, 0);
  }
}

TEST(CongestionWindow, TwoFlowsAndTcpShareALink) {
  for (const Link& link : {kDatacenter, kSlow}) {
    CubicFlow flows[2];
    RenoFlow tcp;
    const Shared shared = share(link, {&flows[0], &tcp, &flows[1]});
    EXPECT_GE(shared.fairness, 0.9);
    EXPECT_GE(shared.used, 0.95);
  }
}

// As many as a rack's hosts, to one of them: far more than the queue holds.
TEST(CongestionWindow, ManyFlowsAtOnceDoNotCollapse) {
  std::vector<std::unique_ptr<CubicFlow>> flows;
  std::vector<FlowWindow*> windows;
  Bottleneck bottleneck(kDatacenter);
  for (int i = 0; i < 64; ++i) {
    flows.push_back(std::make_unique<CubicFlow>());
    bottleneck.add(flows.back().get(), Time(seconds(1)));
  }
  bottleneck.run_until(Time(seconds(2)));
  double arrived = 0;
  for (const auto& flow : bottleneck.flows()) arrived += static_cast<double>(flow.arrived);
  EXPECT_GE(arrived * to_seconds(kDatacenter.packet), 0.9);
}

}  // namespace
}  // namespace switchml
