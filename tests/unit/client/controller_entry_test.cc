#include "client/controller_entry.h"

#include <gtest/gtest.h>

#include "client/fake_controller.h"
#include "client/switches.h"

namespace switchml {
namespace {

SessionParameters of_rank(int rank) {
  SessionParameters session;
  session.worker = rank;
  return session;
}

TEST(ControllerEntry, EveryRankFindsItsOwnPlace) {
  Blob places;
  Blob share;
  share.set("weight", 7);
  share.set("tree_id", UINT64_MAX);
  share.set("address0", "127.0.0.1:1");
  share.set("address1", "[::1]:2");
  places.put("share/0", share);
  places.set("shares", 1);
  places.set("by", " (of controller c:1)");
  for (const auto& [rank, address] : {std::pair(0, "127.0.0.1:1"), std::pair(1, "[::1]:2")}) {
    SessionParameters session = of_rank(rank);
    ASSERT_TRUE(read_place(places, 0, &session).ok());
    EXPECT_EQ(session.switch_endpoint, endpoint_of(address));
    EXPECT_EQ(session.switch_name, std::string(address) + " (of controller c:1)");
    EXPECT_EQ(session.weight, 7U);
    EXPECT_EQ(session.tree_id, UINT64_MAX);
  }
  SessionParameters session = of_rank(2);
  EXPECT_EQ(read_place(places, 0, &session).code(), Code::kInvalidArgument) << "a place for every rank, or an error";
  SessionParameters by_card = of_rank(0);
  by_card.switch_endpoint.carrier = Carrier::kPlaces;
  ASSERT_TRUE(read_place(places, 0, &by_card).ok());
  EXPECT_EQ(by_card.switch_endpoint, with_carrier(endpoint_of("127.0.0.1:1"), Carrier::kPlaces)) << "it stays so";
}

TEST(ControllerEntry, PlacesAreWhatTheControllerSays) {
  FakeController controller;
  controller.move_to(endpoint_of("127.0.0.1:9"));
  const ControllerEntry entry{borrowed(controller), "c:1", {{"10.0.0.1"}, {"10.0.0.2"}}};
  const auto places = entry.places(monotonic_now() + seconds(1));
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(controller.located, entry.ranks);
  SessionParameters session = of_rank(1);
  ASSERT_TRUE(read_place(places.value(), 0, &session).ok());
  EXPECT_EQ(session.switch_name, "127.0.0.1:9 (of controller c:1)");
}

TEST(ControllerEntry, ACountThatIsNotTheGroupsIsRefused) {
  FakeController controller;
  controller.move_to(endpoint_of("127.0.0.1:9"));
  controller.extra = 1;
  const ControllerEntry entry{borrowed(controller), "c:1", {{"10.0.0.1"}, {"10.0.0.2"}}};
  const auto places = entry.places(monotonic_now() + seconds(1));
  EXPECT_EQ(places.status().code(), Code::kMismatch);
  EXPECT_NE(places.status().message().find("controller c:1 names 3 switches for 2 ranks"), std::string::npos);
}

TEST(ControllerEntry, ARefusalIsPassedOn) {
  FakeController controller;
  controller.refusal = Status(Code::kUnavailable, "not now");
  const ControllerEntry entry{borrowed(controller), "c:1", {{"10.0.0.1"}}};
  EXPECT_EQ(entry.places(monotonic_now() + seconds(1)).status().message(), "not now");
}

}  // namespace
}  // namespace switchml
