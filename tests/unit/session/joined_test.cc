#include "session/joined.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/random.h"
#include "client/control_client.h"
#include "client/switches.h"

namespace switchml {
namespace {

TEST(Joined, TopicsOfLaterSessionsHaveANumber) {
  EXPECT_EQ(Joined::topic_of("plan", 0), "plan");
  EXPECT_EQ(Joined({}, {}, 2).topic("joined"), "joined/2");
}

TEST(Joined, SessionsAreLeftOnceUnlessTheyAreTakenOut) {
  const auto server = start_switch();
  const auto open = [&] {
    auto link = connect_to_switch(server->local());
    wire::Open asked;
    asked.workers = asked.shards = 1;
    asked.payload = 1024;
    asked.client_key = random_bits();
    const auto granted = ControlClient(*link.value(), server->local(), "s").open(asked, monotonic_now() + seconds(60));
    EXPECT_TRUE(granted.ok()) << granted.status().to_string();
    Blob blob;
    write_grant(granted.value(), &blob);
    Plan plan;
    plan.sessions.resize(1);
    plan.sessions[0].switch_endpoint = server->local();
    EXPECT_TRUE(read_grant(blob, &plan.sessions[0]).ok());
    return plan;
  };
  const auto closed = [&] { return server->counters().sessions_closed.get(); };
  std::vector<SessionParameters> kept;
  {
    Joined joined(open(), {}, 0);
    Joined moved(std::move(joined));
    kept = std::move(moved.plan.sessions);
  }
  EXPECT_EQ(closed(), 0U);
  {
    Joined joined(open(), {}, 0);
    joined.leave();
    EXPECT_EQ(closed(), 1U);
  }
  EXPECT_EQ(closed(), 1U);
  leave(kept, monotonic_now() + seconds(60));
  EXPECT_EQ(closed(), 2U);
}

}  // namespace
}  // namespace switchml
