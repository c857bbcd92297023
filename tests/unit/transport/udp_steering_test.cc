#include "transport/udp_steering.h"

#include <gtest/gtest.h>

#include "harness.h"
#include "wire/packet.h"
#include "wire/slot_partition.h"

namespace switchml {
namespace {

constexpr int kSockets = 4;

Bytes frame(wire::Kind kind, uint8_t job, uint16_t slot, size_t payload) {
  Bytes bytes(wire::kHeaderBytes + payload);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(kind);
  header.job = job;
  header.slot = slot;
  wire::write_header(header, bytes.data());
  return bytes;
}

/// Sockets that share a port, and somebody who sends to it.
struct Group {
  explicit Group(int steer_over = kSockets) {
    UdpOptions options = on("127.0.0.1:0");
    options.share_port = true;
    options.steer_over = steer_over;
    for (int i = 0; i < kSockets; ++i) {
      sockets.push_back(open_udp(options));
      options.bind = sockets.back()->local();
    }
    sender = open_udp(on("127.0.0.1:0"));
  }
  /// The frames that each socket gets of `count` that are sent in one burst.
  std::vector<std::vector<Bytes>> put(const std::vector<Bytes>& frames) {
    EXPECT_EQ(send_all(*sender, frames, sockets[0]->local()), frames.size());
    std::vector<std::vector<Bytes>> got(kSockets);
    const Time end = monotonic_now() + seconds(60);
    for (size_t count = 0; count < frames.size() && monotonic_now() < end;) {
      for (size_t i = 0; i < kSockets; ++i) {
        RxFrame received;
        while (sockets[i]->receive(&received, 1) == 1) {
          got[i].emplace_back(received.data, received.data + received.size);
          sockets[i]->release();
          ++count;
        }
      }
    }
    return got;
  }
  std::vector<std::unique_ptr<Transport>> sockets;
  std::unique_ptr<Transport> sender;
};

TEST(UdpSteering, EachSlotHasItsSocket) {
  Group group;
  for (const auto kind : {wire::Kind::kContribution, wire::Kind::kResult}) {
    for (const uint8_t job : {1, 2, 255}) {
      for (const uint16_t slot : {0, 7, 8, 16, 31, 32, 255, 4095}) {
        const Bytes sent = frame(kind, job, slot, 64);
        const auto got = group.put({sent});
        const auto home = static_cast<size_t>(wire::slot_partition(job, slot, kSockets));
        ASSERT_EQ(got[home].size(), 1U) << "job " << int{job} << ", slot " << slot;
        EXPECT_EQ(got[home][0], sent);
      }
    }
  }
}

TEST(UdpSteering, ControlAndWhatHasNoHeaderGoToTheFirst) {
  Group group;
  ASSERT_NE(wire::slot_partition(3, 16, kSockets), 0);
  EXPECT_EQ(group.put({frame(wire::Kind::kRequest, 3, 16, 20)})[0].size(), 1U);
  EXPECT_EQ(group.put({Bytes{0x41}})[0].size(), 1U);
  EXPECT_EQ(group.put({Bytes{0x41, 0, 9, 0, 1, 1, 1, 1, 7}})[0].size(), 1U) << "half of a slot number";
}

// A run of segments is one datagram to the kernel: it has one place, that of its first frame.
TEST(UdpSteering, ARunOfSegmentsStaysTogether) {
  Group group;
  std::vector<Bytes> run;
  for (uint16_t slot = 4; slot < 20; ++slot) run.push_back(frame(wire::Kind::kContribution, 1, slot, 1024));
  const auto got = group.put(run);
  size_t together = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    all += got[i].size();
    if (!got[i].empty() && got[i][0] == run[0]) together = i;
  }
  EXPECT_EQ(all, run.size());
  EXPECT_EQ(together, static_cast<size_t>(wire::slot_partition(1, 4, kSockets)));
}

TEST(UdpSteering, SaysThatTheKernelRefuses) { EXPECT_FALSE(steer_by_slot(-1, 2)); }

// What a host without the right does: the kernel goes by the sender, and one sender always gets the same socket.
TEST(UdpSteering, WithoutItASenderHasItsSocket) {
  Group group(0);
  size_t used = 0;
  std::vector<Bytes> frames;
  for (uint16_t slot = 0; slot < 256; slot += 8) frames.push_back(frame(wire::Kind::kContribution, 1, slot, 64));
  for (const auto& got : group.put(frames)) used += got.empty() ? 0 : 1;
  EXPECT_EQ(used, 1U);
}

}  // namespace
}  // namespace switchml
