#include "controllerd/state_text.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(StateText, IsForPeople) {
  v1::StateReply state;
  v1::SwitchState& spine = *state.add_switches();
  spine.mutable_description()->set_name("spine");
  spine.mutable_description()->set_address("10.0.0.1:48879");
  spine.mutable_description()->set_connected(true);
  spine.mutable_description()->mutable_capabilities()->set_kind("bmv2");
  spine.mutable_description()->set_free_slots(384);
  v1::JobCounters& counters = *spine.add_counters();
  counters.set_job(3);
  (*counters.mutable_values())["uses_completed"] = 12;
  (*counters.mutable_values())["dropped_seq"] = 0;
  (*counters.mutable_values())["contributions_added"] = 24;
  v1::SwitchDescription& leaf = *state.add_switches()->mutable_description();
  leaf.set_name("leaf");
  leaf.set_address("10.0.0.2:48879");
  leaf.set_parent("spine");
  leaf.set_problem("its agent does not answer in time");
  v1::SessionState& session = *state.add_sessions();
  session.set_job(3);
  session.set_group("default");
  session.set_owner("team-a");
  session.set_workers(2);
  session.add_joined(1);
  session.set_slots(128);
  session.set_payload_bytes(256);
  session.set_lease_left_ms(29999);
  session.add_switches("spine");
  session.add_switches("leaf");
  session.add_problems("the path from leaf to spine is broken");
  EXPECT_EQ(
      state_text(state),
      "switch spine at 10.0.0.1:48879: bmv2, 1 jobs, 384 slots left\n"
      "switch leaf at 10.0.0.2:48879, below spine: not connected: its agent does not answer in time\n"
      "job 3 \"default\" of team-a: 1 of 2 workers joined (not 0), 128 slots of 256 bytes on spine, leaf, lease 29 s\n"
      "  problem: the path from leaf to spine is broken\n"
      "counters of spine, job 3: contributions_added=24 uses_completed=12\n");
  EXPECT_EQ(state_text({}), "no sessions\n");
}

TEST(StateText, NamesSomeOfManyRanksThatAreMissing) {
  v1::StateReply state;
  v1::SessionState& session = *state.add_sessions();
  session.set_workers(12);
  session.add_joined(2);
  EXPECT_NE(state_text(state).find("1 of 12 workers joined (not 0, 1, 3, 4, 5, 6, 7, 8 and 3 more), "),
            std::string::npos)
      << state_text(state);
}

TEST(StateText, AControllerThatIsNotThereIsNamed) {
  const auto state = ask_state("127.0.0.1:1", {});
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.status().code(), Code::kUnavailable);
  EXPECT_EQ(state.status().message().rfind("controller 127.0.0.1:1: ", 0), 0U) << state.status().message();
  EXPECT_NE(state.status().message().find("Then --tls-ca is needed"), std::string::npos) << state.status().message();
}

}  // namespace
}  // namespace switchml
