#include "controller/switch_state.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "slots/slot_store.h"

namespace switchml::controller {
namespace {

Needs needs(size_t members = 2, size_t payload = 1024) {
  Needs n;
  n.members = members;
  n.payload_bytes = payload;
  return n;
}

SwitchState connected(const Capabilities& can) {
  SwitchState state("s");
  state.connect(can);
  return state;
}

std::string refusal(const SwitchState& state, const Needs& n, Why why) {
  const auto refused = state.check(n);
  EXPECT_TRUE(refused.has_value());
  if (!refused) return "";
  EXPECT_EQ(refused->why, why) << refused->message;
  return refused->message;
}

TEST(SwitchState, ASwitchThatIsNotThereRefuses) {
  SwitchState state("s");
  EXPECT_EQ(refusal(state, needs(), Why::kUnavailable), "switch \"s\" cannot be used: it has not been reached yet");
  EXPECT_EQ(state.free_slots(), 0U);
  state.connect(software());
  EXPECT_FALSE(state.check(needs()).has_value());
  state.disconnect("connection refused");
  EXPECT_EQ(refusal(state, needs(), Why::kUnavailable), "switch \"s\" cannot be used: connection refused");
}

TEST(SwitchState, ItKnowsWhetherTheSwitchHasForgotten) {
  SwitchState state("s");
  EXPECT_FALSE(state.connect(software())) << "nothing was installed before";
  EXPECT_FALSE(state.connect(software()));
  Capabilities restarted = software();
  restarted.instance = 2;
  EXPECT_TRUE(state.connect(restarted));
  EXPECT_FALSE(state.connect(restarted));
}

TEST(SwitchState, WhatASwitchCannotDoIsRefusedByName) {
  Capabilities can = chip();
  can.max = false;
  can.trees = false;
  const SwitchState state = connected(can);
  Needs n = needs();
  EXPECT_EQ(refusal(state, n, Why::kInvalid), "operation MAX: switch \"s\" (bmv2) does SUM only");
  n.max = false;
  EXPECT_FALSE(state.check(n).has_value());
  n.tree = true;
  EXPECT_NE(refusal(state, n, Why::kInvalid).find("cannot be part of a tree"), std::string::npos);
  n.tree = false;
  n.members = 65;
  EXPECT_EQ(refusal(state, n, Why::kInvalid), "65 members of the session at switch \"s\": allowed are 1 to 64");
  can.payloads = {512, 1024};
  n = needs(2, 511);
  n.max = false;
  EXPECT_EQ(refusal(connected(can), n, Why::kInvalid), "payload_bytes 511: switch \"s\" (bmv2) takes 512, 1024");
}

TEST(SwitchState, CapabilitiesThatMakeNoSenseAreAProblem) {
  Capabilities can = software();
  can.protocol_version = 2;
  EXPECT_NE(refusal(connected(can), needs(), Why::kUnavailable).find("protocol version 2"), std::string::npos);
  can = software();
  can.payloads.clear();
  EXPECT_NE(refusal(connected(can), needs(), Why::kUnavailable).find("no payload size"), std::string::npos);
  can = chip();
  can.page_slots = 0;
  EXPECT_NE(refusal(connected(can), needs(), Why::kUnavailable).find("pages of no slots"), std::string::npos);
  can = chip();
  can.jobs = 0;
  EXPECT_NE(refusal(connected(can), needs(), Why::kUnavailable).find("no jobs"), std::string::npos);
}

TEST(SwitchState, PagesAreGivenOnceAndComeBack) {
  SwitchState state = connected(chip(4));
  EXPECT_EQ(state.free_slots(), 512U);
  EXPECT_EQ(state.take(1, 11, 200, 256, 2), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(state.take(2, 12, 128, 256, 2), (std::vector<uint32_t>{2}));
  EXPECT_EQ(state.limits(2).free_pages, 1U);
  EXPECT_EQ(state.limits(2).page_slots, 128U);
  state.release(1);
  EXPECT_EQ(state.take(3, 13, 300, 256, 2), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(state.free_slots(), 0U);
  EXPECT_EQ(state.jobs(), 2U);
}

TEST(SwitchState, MemoryIsCountedAsTheSoftwareSwitchDoes) {
  Capabilities can = software();
  can.memory_bytes = 10 * SlotStore::slot_bytes(1024);
  SwitchState state = connected(can);
  EXPECT_TRUE(state.take(1, 11, 7, SlotStore::slot_bytes(1024), 2).empty());
  EXPECT_EQ(state.limits(2).free_slot_memory_bytes, 3 * SlotStore::slot_bytes(1024));
  state.release(1);
  EXPECT_EQ(state.limits(2).free_slot_memory_bytes, can.memory_bytes);
}

TEST(SwitchState, RemovalsAreKeptUntilConfirmed) {
  SwitchState state = connected(chip());
  state.take(1, 11, 8, 256, 2);
  state.release(1);
  state.take(1, 12, 8, 256, 2);
  state.release(1);
  EXPECT_EQ(state.unconfirmed().size(), 2U) << "the same job under two epochs";
  state.removed(1, 12);
  EXPECT_EQ(state.unconfirmed(), (std::set<std::pair<uint8_t, uint32_t>>{{1, 11}}));
  Capabilities restarted = chip();
  restarted.instance = 2;
  state.connect(restarted);
  EXPECT_TRUE(state.unconfirmed().empty()) << "it has forgotten them by itself";
}

TEST(SwitchState, PlacesForMembersRunOut) {
  Capabilities can = chip(8);
  can.places = 10;
  SwitchState state = connected(can);
  Needs n = needs(3, 256);
  n.shards = 2;
  EXPECT_FALSE(state.check(n).has_value());
  state.take(1, 11, 8, 256, 6);
  EXPECT_NE(refusal(state, n, Why::kExhausted).find("has 4 places for members left, too few for 3 with 2 shards each"),
            std::string::npos);
  n.shards = 1;
  EXPECT_FALSE(state.check(n).has_value());
  n.shards = 2;
  state.release(1);
  EXPECT_FALSE(state.check(n).has_value());
}

TEST(SwitchState, JobsRunOut) {
  Capabilities can = chip(8);
  can.jobs = 2;
  SwitchState state = connected(can);
  Needs n = needs(2, 256);
  state.take(1, 11, 8, 256, 2);
  EXPECT_FALSE(state.check(n).has_value());
  state.take(2, 12, 8, 256, 2);
  EXPECT_NE(refusal(state, n, Why::kExhausted).find("serves 2 jobs"), std::string::npos);
}

}  // namespace
}  // namespace switchml::controller
