#include "controllerd/switch_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "fake_agent.h"
#include "socket/address.h"

namespace switchml {
namespace {

class Recorder : public SwitchEvents {
 public:
  void switch_up(int, const controller::Capabilities& capabilities) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ups_.push_back(capabilities);
  }
  void switch_down(int, const std::string& problem) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    downs_.push_back(problem);
  }
  void packet_in(int, const std::string& payload, const controller::SwitchPort& from) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    packets_.emplace_back(payload, from);
  }
  std::vector<controller::Capabilities> ups() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ups_;
  }
  std::vector<std::string> downs() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return downs_;
  }
  std::vector<std::pair<std::string, controller::SwitchPort>> packets() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return packets_;
  }

 private:
  std::mutex mutex_;
  std::vector<controller::Capabilities> ups_;
  std::vector<std::string> downs_;
  std::vector<std::pair<std::string, controller::SwitchPort>> packets_;
};

controller::SwitchSpec spec_of(const FakeAgent& agent, const std::string& token = "") {
  controller::SwitchSpec spec;
  spec.name = "s";
  spec.agent = agent.address();
  spec.agent_token = token;
  return spec;
}

std::vector<controller::Command> commands(int removals) {
  std::vector<controller::Command> list;
  for (int i = 0; i < removals; ++i) list.emplace_back(0, controller::Remove{{static_cast<uint8_t>(i + 1), 1}});
  return list;
}

/// Results of one submission; empty if they did not come.
std::vector<controller::CommandResult> carried_out(SwitchLink& link, std::vector<controller::Command> list) {
  std::mutex mutex;
  std::vector<controller::CommandResult> out;
  std::atomic<bool> done{false};
  link.submit(std::move(list), [&](std::vector<controller::CommandResult> results) {
    const std::lock_guard<std::mutex> lock(mutex);
    out = std::move(results);
    done = true;
  });
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  const std::lock_guard<std::mutex> lock(mutex);
  return out;
}

class Link : public ::testing::Test {
 protected:
  std::unique_ptr<SwitchLink> connect(const std::string& token = "") {
    auto link = std::make_unique<SwitchLink>(0, spec_of(agent_, token), grpc::InsecureChannelCredentials(), events_);
    EXPECT_TRUE(eventually([&] { return !events_.ups().empty() && agent_.listened; }));
    return link;
  }
  FakeAgent agent_;
  Recorder events_;
};

TEST_F(Link, ConnectsAndClearsWhatIsLeftOfAnother) {
  const auto link = connect();
  const controller::Capabilities can = events_.ups()[0];
  EXPECT_EQ(can.kind, "fake");
  EXPECT_EQ(can.instance, 1U);
  EXPECT_EQ(can.payloads, std::vector<size_t>{1024});
  EXPECT_TRUE(can.any_payload && can.sum && can.max && can.trees);
  EXPECT_EQ(can.members, 128U);
  EXPECT_EQ(can.memory_bytes, 64U << 20);
  EXPECT_EQ(agent_.calls(), std::vector<std::string>{"reset"});
}

TEST_F(Link, BothEndsOfAPairAreTold) {
  agent_.can.set_pairs(true);
  const auto link = connect();
  EXPECT_TRUE(events_.ups()[0].pairs);
  const controller::SwitchPort place{resolve_address("10.0.0.1:4000", "t").value(), "", 0};
  const controller::QueuePair its{0x123, 4, 5, uint64_t{6} << 32};
  std::vector<controller::Command> list;
  list.emplace_back(0, controller::SetMember{{7, 99}, 1, 0, place, its});
  list.emplace_back(0, controller::SetMember{{7, 99}, 2, 0, place});
  const auto results = carried_out(*link, std::move(list));
  ASSERT_EQ(results.size(), 2U);
  ASSERT_TRUE(results[0].pair.has_value());
  EXPECT_EQ(results[0].pair->number, 0x124U);
  EXPECT_FALSE(results[1].pair.has_value());
  const auto members = agent_.members();
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].pair().number(), 0x123U);
  EXPECT_EQ(members[0].pair().first_psn(), 4U);
  EXPECT_EQ(members[0].pair().rkey(), 5U);
  EXPECT_EQ(members[0].pair().address(), uint64_t{6} << 32);
  EXPECT_FALSE(members[1].has_pair());
}

TEST_F(Link, CommandsAreCarriedOutInOrder) {
  const auto link = connect();
  controller::Install install;
  install.id = {7, 99};
  install.shards = 2;
  install.slots = 8;
  install.payload_bytes = 1024;
  install.members = {0, 5};
  install.pages = {3};
  install.uplink = controller::ParentLink{5, {resolve_address("10.0.0.1:48879", "t").value(), "02:00:00:00:00:01", 9}};
  std::vector<controller::Command> list;
  list.emplace_back(0, install);
  list.emplace_back(0, controller::SetMember{{7, 99}, 5, -1, install.uplink->parent});
  list.emplace_back(0, controller::Contributors{{7, 99}, 4, 1});
  list.emplace_back(0, controller::PacketOut{{1, 2, 3}, install.uplink->parent});
  const auto results = carried_out(*link, list);
  ASSERT_EQ(results.size(), 4U);
  for (const auto& result : results) EXPECT_TRUE(result.ok) << result.problem;
  EXPECT_EQ(results[2].members, std::vector<uint32_t>{0});
  EXPECT_EQ(results[2].dropped_length, 7U);
  EXPECT_EQ(agent_.calls(), (std::vector<std::string>{"reset", "install", "member", "contributors", "packet"}));
  const v1::InstallRequest sent = agent_.installs()[0];
  EXPECT_EQ(sent.job(), 7U);
  EXPECT_EQ(sent.epoch(), 99U);
  EXPECT_EQ(sent.members(1), 5U);
  EXPECT_EQ(sent.pages(0), 3U);
  EXPECT_EQ(sent.uplink().worker(), 5U);
  EXPECT_EQ(sent.uplink().parent().address(), "10.0.0.1:48879");
  EXPECT_EQ(sent.uplink().parent().port(), 9U);
  EXPECT_EQ(agent_.members()[0].shard(), -1);
  EXPECT_EQ(agent_.sent()[0].payload(), std::string("\1\2\3"));
}

TEST_F(Link, WhatFollowsAFailureIsLeftOut) {
  const auto link = connect();
  agent_.refuses = true;
  std::vector<controller::Command> list;
  list.emplace_back(0, controller::Remove{{1, 1}});
  list.emplace_back(0, controller::Install{});
  list.emplace_back(0, controller::SetMember{});
  const auto results = carried_out(*link, list);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_TRUE(results[0].ok);
  EXPECT_EQ(results[1].problem, "the tables are full");
  EXPECT_FALSE(results[2].ok);
  EXPECT_EQ(agent_.count("member"), 0);
  EXPECT_TRUE(carried_out(*link, commands(1))[0].ok) << "a refusal is no lost connection";
}

TEST_F(Link, PacketsAreHandedInWithTheirSender) {
  const auto link = connect();
  v1::ControlPacket packet;
  packet.set_payload("hello");
  packet.mutable_worker()->set_address("nowhere");
  agent_.hand_in(packet);
  packet.mutable_worker()->set_address("10.0.1.1:4000");
  packet.mutable_worker()->set_mac("02:00:00:00:01:00");
  packet.mutable_worker()->set_port(3);
  agent_.hand_in(packet);
  ASSERT_TRUE(eventually([&] { return !events_.packets().empty(); }));
  ASSERT_EQ(events_.packets().size(), 1U) << "the one from nowhere is left out";
  EXPECT_EQ(events_.packets()[0].first, "hello");
  EXPECT_EQ(to_string(events_.packets()[0].second.endpoint), "10.0.1.1:4000");
  EXPECT_EQ(events_.packets()[0].second.port, 3U);
}

TEST_F(Link, ComesBackToAnAgentThatWasAway) {
  const auto link = connect();
  agent_.stop();
  ASSERT_TRUE(eventually([&] { return !events_.downs().empty(); }));
  const auto results = carried_out(*link, commands(1));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_FALSE(results[0].ok);
  EXPECT_FALSE(results[0].problem.empty());
  agent_.start();
  ASSERT_TRUE(eventually([&] { return events_.ups().size() == 2; }));
  EXPECT_EQ(agent_.count("reset"), 1) << "the same instance keeps its sessions";
  EXPECT_TRUE(carried_out(*link, commands(1))[0].ok);
}

TEST_F(Link, NoticesASwitchThatHasForgotten) {
  const auto link = connect();
  agent_.restart_switch();
  ASSERT_TRUE(eventually([&] { return events_.ups().size() == 2; })) << "without anything to do";
  EXPECT_EQ(events_.ups()[1].instance, 2U);
  EXPECT_EQ(events_.downs()[0], "it was restarted");
  EXPECT_EQ(agent_.count("reset"), 2);
}

/// Commands that follow each other without a pause, until it is destroyed.
class Traffic {
 public:
  explicit Traffic(SwitchLink& link) : link_(link), thread_([this] { run(); }) {}
  ~Traffic() {
    end_ = true;
    thread_.join();
  }

 private:
  void run() {
    for (; !end_; usleep(10000)) link_.submit(commands(1), nullptr);
  }
  SwitchLink& link_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST_F(Link, NoticesASwitchThatHasForgottenWhileCommandsFollowEachOther) {
  const auto link = connect();
  const Traffic traffic(*link);
  ASSERT_TRUE(eventually([&] { return agent_.count("remove") > 10; }));
  const Time start = monotonic_now();
  agent_.restart_switch();
  ASSERT_TRUE(eventually([&] { return events_.ups().size() == 2; }));
  EXPECT_LT(monotonic_now() - start, seconds(60));
  EXPECT_EQ(events_.downs()[0], "it was restarted");
}

TEST_F(Link, NoticesAStreamThatEndedWhileCommandsFollowEachOther) {
  const auto link = connect();
  const Traffic traffic(*link);
  ASSERT_TRUE(eventually([&] { return agent_.count("remove") > 10; }));
  agent_.mute = true;
  ASSERT_TRUE(eventually([&] { return !events_.downs().empty(); }));
  EXPECT_EQ(events_.downs()[0], "its agent ended the stream of packets");
  agent_.mute = false;
  v1::ControlPacket packet;
  packet.set_payload("hello");
  packet.mutable_worker()->set_address("10.0.1.1:4000");
  agent_.hand_in(packet);
  EXPECT_TRUE(eventually([&] { return !events_.packets().empty(); })) << "packets are read again";
}

constexpr Duration kAgentsPatience = milliseconds(2900);  // a little less than what a link gives an agent to answer

TEST_F(Link, EndsAtOnceWhileItsAgentHangs) {
  auto link = connect();
  agent_.hangs = true;
  std::vector<controller::Command> list;
  list.emplace_back(0, controller::Install{});
  list.emplace_back(0, controller::Remove{{1, 1}});
  link->submit(list, [](const auto&) {});
  std::thread scrape([&] {
    v1::CountersReply reply;
    EXPECT_EQ(link->counters(&reply).error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_TRUE(eventually([&] { return agent_.hanging == 2; }));
  const Time start = monotonic_now();
  link->stop();
  scrape.join();
  link.reset();
  EXPECT_LT(monotonic_now() - start, kAgentsPatience);
}

TEST_F(Link, EndsAtOnceWhileItConnectsToAnAgentThatHangs) {
  agent_.hangs = true;
  auto link = std::make_unique<SwitchLink>(0, spec_of(agent_), grpc::InsecureChannelCredentials(), events_);
  ASSERT_TRUE(eventually([&] { return agent_.hanging == 1; }));
  const Time start = monotonic_now();
  link.reset();
  EXPECT_LT(monotonic_now() - start, kAgentsPatience);
  EXPECT_TRUE(events_.downs().empty()) << "it ended by itself";
}

TEST_F(Link, AnAgentThatIsTooSlowCountsAsGone) {
  const auto link = connect();
  agent_.slow_ms = 3500;
  const auto results = carried_out(*link, commands(2));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].problem, "its agent does not answer in time");
  EXPECT_FALSE(results[1].ok) << "and the second one is not tried";
  agent_.slow_ms = 0;
  EXPECT_TRUE(eventually([&] { return events_.ups().size() == 2; }));
}

TEST_F(Link, ShowsItsToken) {
  agent_.token = "sesame";
  const auto link = connect("sesame");
  Recorder refused;
  const SwitchLink stranger(0, spec_of(agent_, "guess"), grpc::InsecureChannelCredentials(), refused);
  ASSERT_TRUE(eventually([&] { return !refused.downs().empty(); }));
  EXPECT_EQ(refused.downs()[0], "its agent refuses the token (wrong token)");
  EXPECT_TRUE(refused.ups().empty());
}

TEST_F(Link, CountersAreAsked) {
  const auto link = connect();
  v1::CountersReply reply;
  ASSERT_TRUE(link->counters(&reply).ok());
  EXPECT_EQ(reply.jobs(0).values().at("packets_received"), 5U);
}

TEST(LinkWithoutAgent, SaysWhyAndEndsAtOnce) {
  Recorder events;
  controller::SwitchSpec spec;
  spec.name = "s";
  spec.agent = "127.0.0.1:1";
  const Time start = monotonic_now();
  {
    SwitchLink link(0, spec, grpc::InsecureChannelCredentials(), events);
    ASSERT_TRUE(eventually([&] { return !events.downs().empty(); }));
    EXPECT_NE(events.downs()[0].find("cannot be reached"), std::string::npos) << events.downs()[0];
    v1::CountersReply reply;
    EXPECT_FALSE(link.counters(&reply).ok());
    EXPECT_FALSE(carried_out(link, commands(1))[0].ok);
  }
  EXPECT_LT(monotonic_now() - start, seconds(60));
}

}  // namespace
}  // namespace switchml
