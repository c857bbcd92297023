#include "transport/udp_tx.h"

#include "transport/harness.h"
#include "transport/raw_socket.h"

namespace switchml {
namespace {

class UdpTx : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kernel_has_segmentation()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT and UDP_GRO";
  }
  std::string bind_ = GetParam();
};

TEST_P(UdpTx, ARunOfEqualFramesIsOneMessage) {
  RawSocket raw(bind_, true);
  for (const bool connected : {false, true}) {
    UdpOptions options = on(bind_);
    if (connected) options.peer = raw.local();
    const auto udp = open_udp(options);
    std::vector<Bytes> frames;
    Bytes joined;
    for (uint32_t i = 0; i < 10; ++i) {
      frames.push_back(pattern(i, i < 9 ? 1044 : 100));  // the last one may be shorter
      joined.insert(joined.end(), frames.back().begin(), frames.back().end());
    }
    EXPECT_EQ(send_all(*udp, frames, raw.local()), 10U);
    const RawSocket::Datagram got = raw.receive();
    EXPECT_EQ(got.segment, 1044) << "segmentation was not used";
    EXPECT_TRUE(got.bytes == joined);
    EXPECT_EQ(udp->take_error(), "");
  }
}

TEST_P(UdpTx, SegmentationCanBeSwitchedOff) {
  RawSocket raw(bind_, true);
  UdpOptions options = on(bind_);
  options.segmentation = false;
  const auto udp = open_udp(options);
  send_all(*udp, {pattern(0, 1044), pattern(1, 1044)}, raw.local());
  for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(raw.receive().bytes == pattern(i, 1044));
}

TEST_P(UdpTx, ARunEndsWhereItHasTo) {
  RawSocket raw(bind_, true);
  RawSocket other(bind_, true);
  const auto udp = open_udp(on(bind_));
  const Endpoint here = raw.local();
  const Endpoint there = other.local();
  // 500 500 | 600 (longer) 100 (shorter: the last) | 100 | to another endpoint | back again
  std::vector<Bytes> bytes;
  for (const size_t size : {500, 500, 600, 100, 100, 100, 100}) bytes.push_back(pattern(0, size));
  std::vector<TxFrame> frames;
  for (size_t i = 0; i < bytes.size(); ++i) {
    frames.push_back({bytes[i].data(), static_cast<uint32_t>(bytes[i].size()), i == 5 ? &there : &here});
  }
  EXPECT_EQ(udp->send(frames.data(), frames.size()), frames.size());
  for (const size_t expected : {1000, 700, 100, 100}) EXPECT_EQ(raw.receive().bytes.size(), expected);
  EXPECT_EQ(other.receive().bytes.size(), 100U);
}

TEST_P(UdpTx, ARunHoldsAtMost64FramesAndOneDatagram) {
  RawSocket raw(bind_, true);
  const auto udp = open_udp(on(bind_));
  send_all(*udp, std::vector<Bytes>(100, pattern(0, 20)), raw.local());
  EXPECT_EQ(raw.receive().bytes.size(), 64U * 20);
  EXPECT_EQ(raw.receive().bytes.size(), 36U * 20);
  send_all(*udp, std::vector<Bytes>(9, pattern(0, 8212)), raw.local());
  EXPECT_EQ(raw.receive().bytes.size(), 7U * 8212);
  EXPECT_EQ(raw.receive().bytes.size(), 2U * 8212);
}

TEST_P(UdpTx, ThousandsOfFramesGoInOneCall) {
  UdpOptions options = on(bind_);
  options.receive_buffer_bytes = 32 << 20;
  const auto receiver = open_udp(options);
  const auto sender = open_udp(options);
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 3000; ++i) frames.push_back(pattern(i, 100 + i % 3));
  EXPECT_EQ(send_all(*sender, frames, receiver->local()), frames.size());
  EXPECT_EQ(collect(*receiver, frames.size()).size(), frames.size());
}

INSTANTIATE_TEST_SUITE_P(Families, UdpTx, ::testing::Values("127.0.0.1:0", "[::1]:0"),
                         [](const auto& family) { return family.param[0] == '[' ? "ipv6" : "ipv4"; });

TEST(UdpTxErrors, AFrameThatCannotGoIsLostAndTheOthersGo) {
  RawSocket raw("127.0.0.1:0");
  const auto udp = open_udp(on("127.0.0.1:0"));
  const Endpoint good = raw.local();
  const Endpoint port0 = address("127.0.0.1:0");  // the kernel refuses it
  const Endpoint none;
  const Endpoint six = address("[::1]:5");
  const Bytes frame = pattern(9, 200);
  std::vector<TxFrame> frames;
  for (const Endpoint* to : {&port0, &port0, &good, &six, &none, &good}) frames.push_back({frame.data(), 200, to});
  EXPECT_EQ(udp->send(frames.data(), frames.size()), frames.size());
  EXPECT_TRUE(raw.receive().bytes == frame);
  EXPECT_TRUE(raw.receive().bytes == frame);
  EXPECT_NE(udp->take_error().find("127.0.0.1:0: "), std::string::npos);
  EXPECT_EQ(udp->take_error(), "") << "asking clears it";
}

TEST(UdpTxErrors, ARefusedRunDoesNotEndSegmentation) {
  if (!kernel_has_segmentation()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT and UDP_GRO";
  RawSocket raw("127.0.0.1:0", true);
  const auto udp = open_udp(on("127.0.0.1:0"));
  const std::vector<Bytes> frames(4, pattern(9, 200));
  EXPECT_EQ(send_all(*udp, frames, address("127.0.0.1:0")), 4U);
  EXPECT_EQ(send_all(*udp, frames, raw.local()), 4U);
  EXPECT_EQ(raw.receive().bytes.size(), 800U);
}

// A device whose checksums are done in software refuses segmentation (EIO); so does a socket that sends without
// checksums.
TEST(UdpTxErrors, FramesStillGoWhereTheKernelRefusesSegmentation) {
  if (!kernel_has_segmentation()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT and UDP_GRO";
  RawSocket raw("127.0.0.1:0", true);
  UdpOptions options = on("127.0.0.1:0");
  Result<UdpSocket> socket = open_udp_socket(options);
  ASSERT_TRUE(socket.ok()) << socket.status().to_string();
  const int on = 1;
  ASSERT_EQ(::setsockopt(socket->fd.get(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
  LocalAddresses locals;
  SocketError socket_error;
  UdpSender sender(socket.value(), options, &locals, &socket_error);
  const Endpoint to = raw.local();
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint32_t i = 0; i < 5; ++i) bytes.push_back(pattern(i, 300));
  for (const Bytes& frame : bytes) frames.push_back({frame.data(), 300, &to});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(sender.send(frames.data(), frames.size()), 5U);
    for (const Bytes& frame : bytes) EXPECT_TRUE(raw.receive().bytes == frame);
  }
  EXPECT_EQ(socket_error.take(), "");
}

}  // namespace
}  // namespace switchml
