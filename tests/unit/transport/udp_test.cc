#include "transport/udp.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <thread>

#include "transport/harness.h"
#include "transport/raw_socket.h"

namespace switchml {
namespace {

/// An address on which nobody listens.
Endpoint deserted(const std::string& bind) { return open_udp(on(bind))->local(); }

TEST(Udp, ARefusingPeerIsReportedByName) {
  for (const std::string bind : {"127.0.0.1:0", "[::1]:0"}) {
    UdpOptions options = on(bind);
    options.peer = deserted(bind);
    const auto udp = open_udp(options);
    EXPECT_EQ(udp->take_error(), "");
    const std::vector<Bytes> frames = {pattern(1, 100), pattern(2, 100), pattern(3, 50), pattern(4, 90)};
    EXPECT_EQ(send_all(*udp, frames, options.peer), 4U);
    udp->wait(milliseconds(100));
    const std::string error = udp->take_error();
    EXPECT_NE(error.find(to_string(options.peer)), std::string::npos) << error;
    EXPECT_NE(error.find("refused"), std::string::npos) << error;
    EXPECT_EQ(udp->take_error(), "");
  }
}

TEST(Udp, ARefusalIsReportedByReceiveToo) {
  UdpOptions options = on("127.0.0.1:0");
  options.peer = deserted("127.0.0.1:0");
  const auto udp = open_udp(options);
  send_all(*udp, {pattern(1, 100)}, options.peer);
  RxFrame frame;
  EXPECT_EQ(udp->receive(&frame, 1), 0U);
  EXPECT_NE(udp->take_error().find("refused"), std::string::npos);
}

TEST(Udp, APeerThatComesBackIsReachedAgain) {
  UdpOptions options = on("127.0.0.1:0");
  options.peer = deserted("127.0.0.1:0");
  const auto udp = open_udp(options);
  send_all(*udp, std::vector<Bytes>(10, pattern(1, 100)), options.peer);
  UdpOptions again;
  again.bind = options.peer;
  const auto peer = open_udp(again);
  EXPECT_EQ(send_all(*udp, {pattern(2, 100), pattern(3, 100)}, options.peer), 2U);
  EXPECT_EQ(collect(*peer, 2).size(), 2U);
}

TEST(Udp, AnOversizedFrameIsReported) {
  UdpOptions options = on("127.0.0.1:0");
  options.max_frame_bytes = 100;
  const auto udp = open_udp(options);
  send_all(*udp, {pattern(1, 101)}, address("127.0.0.1:9"));
  const std::string error = udp->take_error();
  EXPECT_NE(error.find("127.0.0.1:9"), std::string::npos) << error;
  EXPECT_NE(error.find("101"), std::string::npos) << error;
}

// A worker's socket is connected: an answer from another address of the switch's host would never reach it.
class Wildcard : public ::testing::TestWithParam<bool> {};

TEST_P(Wildcard, AnswersFromTheAddressAsked) {
  UdpOptions options;
  options.segmentation = GetParam();
  const auto udp = open_udp(options);
  std::vector<std::unique_ptr<RawSocket>> askers;
  for (const char* host : {"127.0.0.2", "127.0.0.3", "127.0.0.2"}) {
    askers.push_back(std::make_unique<RawSocket>("127.0.0.1:0"));
    const Endpoint switch_at = address(std::string(host) + ":" + std::to_string(port_of(udp->local())));
    askers.back()->connect(switch_at);
    askers.back()->send(pattern(1, 60), switch_at);
  }
  std::vector<Endpoint> from;
  const Time end = monotonic_now() + seconds(60);
  while (from.size() < 3 && monotonic_now() < end) {
    RxFrame frames[8];
    const size_t n = udp->receive(frames, 8);
    for (size_t i = 0; i < n; ++i) from.push_back(frames[i].from);
    udp->release();
    if (n == 0) udp->wait(milliseconds(20));
  }
  ASSERT_EQ(from.size(), 3U);
  const Bytes result = pattern(2, 400);
  std::vector<TxFrame> same;
  for (const Endpoint& to : from) same.push_back({result.data(), 400, &to});
  EXPECT_EQ(udp->send(same.data(), same.size()), same.size());
  for (const auto& asker : askers) EXPECT_TRUE(asker->receive().bytes == result);
  // Runs, too, carry their source address beside their segment size.
  for (size_t i = 0; i < 3; ++i) send_all(*udp, std::vector<Bytes>(5, result), from[i]);
  for (const auto& asker : askers) {
    size_t bytes = 0;
    for (int i = 0; i < 5; ++i) bytes += asker->receive().bytes.size();
    EXPECT_EQ(bytes, 5U * 400);
  }
}

INSTANTIATE_TEST_SUITE_P(Segmentation, Wildcard, ::testing::Bool());

TEST(Udp, AWildcardAnswersOverIpv6) {
  const auto udp = open_udp(on("[::]:0"));
  RawSocket asker("[::1]:0");
  const Endpoint switch_at = with_port(address("[::1]:0"), port_of(udp->local()));
  asker.connect(switch_at);
  asker.send(pattern(1, 60), switch_at);
  udp->wait(seconds(60));
  RxFrame frame;
  ASSERT_EQ(udp->receive(&frame, 1), 1U);
  EXPECT_NE(frame.from.via, 0);
  EXPECT_EQ(frame.from, asker.local());
  send_all(*udp, {pattern(2, 70)}, frame.from);
  EXPECT_TRUE(asker.receive().bytes == pattern(2, 70));
}

// In bursts of equal frames, which the kernel cuts and puts together where they say the same.
TEST(Udp, AFrameArrivesWithTheMarkThatItHadOrGot) {
  for (const char* host : {"127.0.0.1:0", "[::1]:0"}) {
    const auto sender = open_udp(on(host)), receiver = open_udp(on(host));
    const Endpoint to = receiver->local();
    std::vector<Bytes> bytes;
    std::vector<TxFrame> frames;
    std::vector<Ecn> expected;
    for (const Ecn ecn : {Ecn::kNone, Ecn::kCapable, Ecn::kMarked, Ecn::kOther})
      expected.insert(expected.end(), 5, ecn);
    for (size_t i = 0; i < expected.size(); ++i) bytes.push_back(pattern(static_cast<uint32_t>(i), 300));
    for (size_t i = 0; i < expected.size(); ++i) {
      frames.push_back({bytes[i].data(), 300, &to});
      frames.back().ecn = expected[i];
    }
    ASSERT_EQ(sender->send(frames.data(), frames.size()), frames.size());
    std::vector<Ecn> arrived;
    while (arrived.size() < expected.size()) {
      RxFrame got[32];
      const size_t count = receiver->receive(got, 32);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(std::equal(bytes[arrived.size()].begin(), bytes[arrived.size()].end(), got[i].data)) << i;
        arrived.push_back(got[i].ecn);
      }
      receiver->release();
      if (count == 0) receiver->wait(seconds(60));
    }
    EXPECT_EQ(arrived, expected) << host;
  }
}

/// Runs `body` where the loopback interface carries packets of up to 1500 bytes. False: this system does not let us.
bool on_narrow_loopback(const std::function<void()>& body) {
  bool ready = false;
  std::thread([&] {  // a thread has network namespaces of its own
    if (::unshare(CLONE_NEWNET) != 0) return;
    const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_mtu = 1500;
    if (::ioctl(fd.get(), SIOCSIFMTU, &request) != 0) return;
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) return;
    ready = true;
    body();
  })
      .join();
  return ready;
}

TEST(Udp, WithoutFragmentsWhatALinkDoesNotCarryIsLost) {
  const bool tried = on_narrow_loopback([] {
    for (const std::string bind : {"127.0.0.1:0", "[::1]:0"}) {
      const size_t most = 1500 - 8 - (bind[0] == '[' ? 40 : 20);
      const auto receiver = open_udp(on(bind));
      UdpOptions options = on(bind);
      options.peer = receiver->local();
      const auto sender = open_udp(options);
      const std::vector<Bytes> frames = {pattern(1, 4000), pattern(2, most), pattern(3, most + 1), pattern(4, 10)};
      const auto expect = [&](const std::vector<uint32_t>& ids) {
        EXPECT_EQ(send_all(*sender, frames, receiver->local()), frames.size());
        const auto got = collect(*receiver, ids.size());
        ASSERT_EQ(got.size(), ids.size()) << bind;
        for (size_t i = 0; i < ids.size(); ++i) EXPECT_TRUE(got[i] == frames[ids[i] - 1]) << bind << " " << i;
        RxFrame more;
        EXPECT_EQ(receiver->receive(&more, 1), 0U);
      };
      expect({1, 2, 3, 4});
      EXPECT_EQ(sender->take_error(), "");
      sender->allow_fragments(false);
      expect({2, 4});
      EXPECT_NE(sender->take_error(), "");
      sender->allow_fragments(true);
      receiver->allow_fragments(false);
      expect({2, 4});
      EXPECT_EQ(sender->take_error(), "") << "they left in fragments, and were not taken";
      receiver->allow_fragments(true);
      expect({1, 2, 3, 4});
    }
  });
  if (!tried) GTEST_SKIP() << "this process may not have a network namespace of its own";
}

}  // namespace
}  // namespace switchml
