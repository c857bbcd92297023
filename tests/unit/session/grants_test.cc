#include "session/grants.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/limits.h"

namespace switchml {
namespace {

SessionWish wish_of(size_t switches, size_t shards, size_t payload = 1408) {
  SessionWish wish;
  wish.workers = 2;
  wish.switches = switches;
  wish.shards = shards;
  wish.payload = payload;
  return wish;
}

TEST(Grants, SeveralSwitchesShareTheSlotsThatOneWouldGive) {
  for (const auto& [switches, shards, slots] : {std::tuple<size_t, size_t, int>{1, 1, 0},
                                                {2, 1, 64},
                                                {2, 2, 64},
                                                {3, 1, 42},
                                                {3, 2, 42},
                                                {8, 1, 16},
                                                {9, 1, 16},
                                                {9, 2, 32}}) {
    const wire::Open asked = request_for(wish_of(switches, shards), Precision::kAuto);
    EXPECT_EQ(asked.slots, slots) << switches << " switches, " << shards << " shards";
    EXPECT_EQ(asked.workers, 2U);
    EXPECT_EQ(asked.shards, shards);
  }
  EXPECT_EQ(request_for(wish_of(2, 1, 2 * kMostPayloadForStreams), Precision::kAuto).slots, 0) << "too few for streams";
  SessionWish named = wish_of(2, 1);
  named.slots = 12;
  EXPECT_EQ(request_for(named, Precision::kAuto).slots, 12);
}

TEST(Grants, HostsWhoseRanksNeedMoreThanASwitchGivesAskForIt) {
  SessionWish hosts = wish_of(1, 8);
  EXPECT_EQ(request_for(hosts, Precision::kAuto).slots, 0);
  hosts.of_hosts = true;
  EXPECT_EQ(request_for(hosts, Precision::kAuto).slots, 8 * kLeastSlotsForBulk);
}

TEST(Grants, ConnectionsNeedSlotsForTwoStreamsOnly) {
  SessionWish wish = wish_of(1, 2, kMaxPayloadBytes);
  wish.carrier = Carrier::kTcp;
  EXPECT_EQ(request_for(wish, Precision::kAuto).slots, 2 * kLeastExactForBulk);
}

TEST(Grants, ExactSessionsAreAskedForUnlessIntegersAreWantedOrTheCardIsAChips) {  // [EXACT-1]
  SessionWish wish = wish_of(1, 1);
  const auto is_exact = [&](Precision precision) {
    return (request_for(wish, precision).flags & wire::kOpenExact) != 0;
  };
  EXPECT_TRUE(is_exact(Precision::kAuto) && is_exact(Precision::kExact));
  EXPECT_FALSE(is_exact(Precision::kInteger));
  wish.carrier = Carrier::kPlaces;
  EXPECT_FALSE(is_exact(Precision::kAuto));
}

wire::OpenReply grant_of(uint16_t flags, uint32_t payload = 1408) {
  wire::OpenReply grant;
  grant.flags = flags;
  grant.payload = payload;
  return grant;
}

/// What is wrong with the last of the grants of as many of these switches.
std::string problem(const Config& config, const std::vector<wire::OpenReply>& grants) {
  std::vector<SwitchAddress> switches(3);
  for (size_t i = 0; i < 3; ++i) switches[i].name = "s" + std::to_string(i);
  if (grants.size() == 1) switches.resize(1);
  return check_last_grant(config, switches, grants).message();
}

TEST(Grants, ThatDoNotSuitTheSettingsNameTheSwitch) {
  Config config;
  const wire::OpenReply exact = grant_of(wire::kOpenExact), integers = grant_of(0);
  EXPECT_EQ(problem(config, {exact}), "");
  EXPECT_EQ(problem(config, {integers}), "") << "a chip alone";
  EXPECT_EQ(problem(config, {exact, exact, exact}), "");
  EXPECT_EQ(problem(config, {exact, integers}), "switch s1 adds integers, and cannot be one of several: name it alone");
  EXPECT_EQ(
      problem(config, {exact, grant_of(wire::kOpenExact, 1024)}),
      "switch s1 grants 1024 bytes of payload, and switch s0 1408: set SWITCHML_PAYLOAD to what all of them take");
  config.controller = "c:1";
  EXPECT_EQ(problem(config, {integers, integers}), "") << "a controller's chips";
  config.precision = Precision::kExact;
  EXPECT_EQ(problem(config, {grant_of(wire::kOpenExact | wire::kOpenTree)}), "");
  EXPECT_EQ(problem(config, {exact}), "");
  EXPECT_EQ(problem(config, {integers}),
            "SWITCHML_PRECISION=\"exact\" cannot be had: switch s0 adds integers; use auto, or a switch in software");
}

TEST(Grants, AFlagIsOfferedIfAllExactGrantsHaveIt) {
  std::vector<SwitchAddress> switches(2);
  switches[0].name = "a";
  switches[1].name = "b";
  const wire::OpenReply both = grant_of(wire::kOpenExact | wire::kOpenStream);
  EXPECT_EQ(first_without(wire::kOpenStream, switches, {both, both}), "");
  EXPECT_EQ(first_without(wire::kOpenStream, switches, {both, grant_of(wire::kOpenExact)}), "b");
  EXPECT_EQ(first_without(wire::kOpenStream, switches, {grant_of(wire::kOpenStream), both}), "a") << "integers";
}

}  // namespace
}  // namespace switchml
