#include "client/udp_reach.h"

#include <gtest/gtest.h>

#include "client/switch_entry.h"
#include "client/switches.h"
#include "transport/faulty.h"

namespace switchml {
namespace {

SwitchAddress place_of(const Endpoint& at) {
  SwitchAddress place;
  place.endpoint = at;
  place.name = "s";
  return place;
}

/// Of a rank whose packets are lost with that probability, each way.
bool takes_tcp_alone_from(const Endpoint& at, double loss) {
  auto link = connect_to_switch(at);
  EXPECT_TRUE(link.ok()) << link.status().to_string();
  Faults faults;
  faults.send_loss = faults.receive_loss = loss;
  const auto lossy = make_faulty_transport(std::move(link.value()), faults);
  return takes_tcp_alone(*lossy, place_of(at), monotonic_now() + seconds(60));
}

TEST(UdpReach, PacketsThatPassAreTaken) {
  const auto server = start_switch();
  EXPECT_FALSE(takes_tcp_alone_from(server->local(), 0.0));
  EXPECT_FALSE(takes_tcp_alone_from(server->local(), 0.2)) << "also where some are lost";
}

TEST(UdpReach, WhereNonePassesTcpIsTaken) {
  const auto server = start_switch();
  EXPECT_TRUE(takes_tcp_alone_from(server->local(), 1.0));
}

TEST(UdpReach, ASwitchThatIsNotThereIsAwaitedByPackets) { EXPECT_FALSE(takes_tcp_alone_from(closed_port(), 0.0)); }

TEST(UdpReach, NothingIsTriedBeyondTheDeadline) {
  const auto server = start_switch();
  auto link = connect_to_switch(server->local());
  Faults faults;
  faults.send_loss = 1.0;
  const auto deaf = make_faulty_transport(std::move(link.value()), faults);
  const Time begin = monotonic_now();
  EXPECT_FALSE(takes_tcp_alone(*deaf, place_of(closed_port()), begin)) << "nothing has answered";
}

}  // namespace
}  // namespace switchml
