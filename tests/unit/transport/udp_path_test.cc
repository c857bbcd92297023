#include "transport/udp_path.h"

#include "transport/harness.h"

namespace switchml {
namespace {

TEST(UdpPath, LoopbackEndsOnThisHost) {
  for (const char* text : {"127.0.0.1:5000", "127.9.8.7:5000", "[::1]:5000", "127.0.0.1:0"}) {
    const UdpPath path = udp_path(address(text));
    EXPECT_TRUE(path.routed) << text;
    EXPECT_TRUE(path.on_host) << text;
    EXPECT_GE(path.mtu, 1280U) << text;
  }
}

TEST(UdpPath, AnOwnAddressEndsOnThisHost) {
  const Endpoint own = announced_address("").value();
  EXPECT_TRUE(udp_path(with_port(own, 5000)).on_host) << to_string(own);
  UdpOptions options;
  options.max_frame_bytes = 60000;
  EXPECT_EQ(open_udp(options)->path_frame_bytes(own), 60000U);
}

TEST(UdpPath, AnotherHostDoesNot) {
  const UdpPath path = udp_path(address("203.0.113.7:5000"));
  EXPECT_FALSE(path.on_host);
  const size_t frame = open_udp({})->path_frame_bytes(address("203.0.113.7:5000"));
  EXPECT_EQ(frame, path.routed ? path.mtu - 28 : 1280U - 28);
}

TEST(UdpPath, AFrameIsAPacketLessItsHeaders) {
  UdpPath path;
  path.routed = true;
  path.mtu = 1500;
  EXPECT_EQ(udp_segment_limit(path, address("10.0.0.1:5"), 65507), 1472U);
  EXPECT_EQ(udp_segment_limit(path, address("[2001:db8::1]:5"), 65507), 1452U);
  EXPECT_EQ(udp_segment_limit(path, address("10.0.0.1:5"), 1044), 1044U);
  path.mtu = 9000;
  EXPECT_EQ(udp_segment_limit(path, address("10.0.0.1:5"), 65507), 8972U);
  path.mtu = 20;
  EXPECT_EQ(udp_segment_limit(path, address("10.0.0.1:5"), 65507), 0U);
}

TEST(UdpPath, WhatIsNoAddressHasNoRoute) {
  EXPECT_FALSE(udp_path(Endpoint{}).routed);
  EXPECT_FALSE(udp_path(Endpoint{}).on_host);
}

}  // namespace
}  // namespace switchml
