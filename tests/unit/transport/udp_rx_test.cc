#include "transport/udp_rx.h"

#include <algorithm>

#include "transport/harness.h"
#include "transport/raw_socket.h"

namespace switchml {
namespace {

Bytes join(const std::vector<Bytes>& frames) {
  Bytes all;
  for (const Bytes& frame : frames) all.insert(all.end(), frame.begin(), frame.end());
  return all;
}

TEST(UdpRx, CutsCoalescedDatagramsUpAgain) {
  if (!kernel_has_segmentation()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT and UDP_GRO";
  const auto udp = open_udp(on("127.0.0.1:0"));
  RawSocket raw("127.0.0.1:0");
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 20; ++i) frames.push_back(pattern(i, i < 19 ? 512 : 33));
  raw.send(join(frames), udp->local(), 512);
  EXPECT_EQ(collect(*udp, 20), frames);
}

TEST(UdpRx, ALaterReceiveLendsTheRestOfADatagram) {
  if (!kernel_has_segmentation()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT and UDP_GRO";
  UdpOptions options = on("127.0.0.1:0");
  options.receive_frames = 1;  // one buffer: a second datagram may not overwrite it before its time
  const auto udp = open_udp(options);
  RawSocket raw("127.0.0.1:0");
  std::vector<Bytes> first, second;
  for (uint32_t i = 0; i < 10; ++i) first.push_back(pattern(i, 700));
  for (uint32_t i = 10; i < 20; ++i) second.push_back(pattern(i, 700));
  raw.send(join(first), udp->local(), 700);
  raw.send(join(second), udp->local(), 700);
  udp->wait(seconds(60));

  RxFrame lent[10];
  ASSERT_EQ(udp->receive(lent, 4), 4U);
  udp->release();
  const Time begin = monotonic_now();
  udp->wait(seconds(60));  // frames are here already
  EXPECT_LT(monotonic_now() - begin, seconds(30));
  ASSERT_EQ(udp->receive(lent, 3), 3U);
  ASSERT_EQ(udp->receive(lent + 3, 7), 3U) << "the rest of this datagram";
  EXPECT_EQ(udp->receive(lent + 6, 4), 0U) << "the only buffer is lent";
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::equal(first[4 + i].begin(), first[4 + i].end(), lent[i].data)) << i;
  udp->release();
  EXPECT_EQ(collect(*udp, 10), second);
}

TEST(UdpRx, DropsWhatIsEmptyOrTooLong) {
  for (const bool segmentation : {false, true}) {
    UdpOptions options = on("127.0.0.1:0");
    options.max_frame_bytes = 1000;
    options.segmentation = segmentation;
    const auto udp = open_udp(options);
    RawSocket raw("127.0.0.1:0");
    for (int i = 0; i < 3; ++i) raw.send({}, udp->local());
    raw.send(pattern(1, 1001), udp->local());
    raw.send(pattern(2, 65507), udp->local());
    raw.send(pattern(3, 1000), udp->local());
    for (int i = 0; i < 100; ++i) raw.send({}, udp->local());
    raw.send(pattern(4, 1), udp->local());
    EXPECT_EQ(collect(*udp, 2), (std::vector<Bytes>{pattern(3, 1000), pattern(4, 1)}));
  }
}

TEST(UdpRx, PayloadsBeginOnACacheLine) {
  const auto udp = open_udp(on("127.0.0.1:0"));
  RawSocket raw("127.0.0.1:0");
  raw.send(pattern(1, 300), udp->local());
  udp->wait(seconds(60));
  RxFrame frame;
  ASSERT_EQ(udp->receive(&frame, 1), 1U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.data + 20) % 64, 0U);
}

TEST(UdpRx, AConnectedSocketTakesFramesOfItsPeerOnly) {
  RawSocket peer("127.0.0.1:0");
  RawSocket stranger("127.0.0.1:0");
  UdpOptions options = on("127.0.0.1:0");
  options.peer = peer.local();
  const auto udp = open_udp(options);
  stranger.send(pattern(1, 100), udp->local());
  peer.send(pattern(2, 100), udp->local());
  udp->wait(seconds(60));
  RxFrame frames[4];
  ASSERT_EQ(udp->receive(frames, 4), 1U);
  EXPECT_EQ(id_of(frames[0].data), 2U);
  EXPECT_EQ(frames[0].from, peer.local());
}

}  // namespace
}  // namespace switchml
