#include "controller/topology.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

TEST(Topology, AWorkerIsFoundByAddressWhateverThePort) {
  const Topology topology = two_leaves();
  EXPECT_EQ(worker_at(topology, at("10.0.1.3")), 3);
  EXPECT_EQ(worker_at(topology, at("10.0.1.3:1234")), 3);
  EXPECT_EQ(worker_at(topology, at("10.0.1.4")), kNone);
  EXPECT_EQ(worker_at(topology, at("[::1]:9")), kNone);
  EXPECT_EQ(worker_at(lone_switch(), at("10.0.1.3")), kNone);
}

TEST(Topology, ThePathGoesUpToTheRoot) {
  const Topology topology = two_leaves();
  EXPECT_EQ(path_to_root(topology, 0), (std::vector<int>{0}));
  EXPECT_EQ(path_to_root(topology, 2), (std::vector<int>{2, 0}));
}

TEST(Topology, AnUplinkTakesWhatItsHeadersLeave) {
  SwitchSpec spec = switch_spec("s", "10.0.0.1:48879");
  EXPECT_EQ(uplink_payload(spec.address, spec.up), 1500U - 20 - 8 - 24)
      << "IPv4, UDP, the longer header of this protocol";
  spec.address = at("[fe80::1]:48879");
  EXPECT_EQ(uplink_payload(spec.address, spec.up), 1500U - 40 - 8 - 24);
  spec.up.mtu = 60;
  EXPECT_EQ(uplink_payload(spec.address, spec.up), 0U);
}

}  // namespace
}  // namespace switchml::controller
