#include "transport/udp_socket.h"

#include <netinet/in.h>

#include "transport/harness.h"

namespace switchml {
namespace {

std::string error_of(const UdpOptions& options, Code code) {
  const auto result = make_udp_transport(options);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code) << result.status().to_string();
  return result.status().message();
}

TEST(UdpSocket, APortInUseIsNamed) {
  const auto first = open_udp(on("127.0.0.1:0"));
  UdpOptions options;
  options.bind = first->local();
  const std::string message = error_of(options, Code::kUnavailable);
  EXPECT_NE(message.find(to_string(first->local())), std::string::npos) << message;
  EXPECT_NE(message.find("in use"), std::string::npos) << message;
}

TEST(UdpSocket, AnAddressOfAnotherHostIsNamed) {
  const std::string message = error_of(on("203.0.113.77:5000"), Code::kUnavailable);
  EXPECT_NE(message.find("203.0.113.77:5000"), std::string::npos) << message;
  EXPECT_NE(message.find("does not have this address"), std::string::npos) << message;
}

TEST(UdpSocket, OptionsOutOfRangeAreNamed) {
  UdpOptions options;
  options.max_frame_bytes = 65508;
  EXPECT_NE(error_of(options, Code::kInvalidArgument).find("65508"), std::string::npos);
  options.max_frame_bytes = 0;
  EXPECT_NE(error_of(options, Code::kInvalidArgument).find("1 to 65507"), std::string::npos);
  options = {};
  options.receive_frames = 0;
  EXPECT_NE(error_of(options, Code::kInvalidArgument).find("1 to 1024"), std::string::npos);
  options = on("127.0.0.1:0");
  options.peer = address("[::1]:5");
  EXPECT_NE(error_of(options, Code::kInvalidArgument).find("[::1]:5"), std::string::npos);
  options = {};
  options.bind.size = 5;
  EXPECT_NE(error_of(options, Code::kInvalidArgument).find("not an IPv4 or IPv6 address"), std::string::npos);
}

TEST(UdpSocket, WithoutAnAddressItTakesOneOfThePeersFamily) {
  EXPECT_EQ(open_udp({})->local().size, sizeof(sockaddr_in));
  const auto target = open_udp(on("[::1]:0"));
  UdpOptions options;
  options.peer = target->local();
  const auto udp = open_udp(options);
  EXPECT_TRUE(same_address(udp->local(), target->local())) << to_string(udp->local());
  EXPECT_NE(port_of(udp->local()), 0);
}

TEST(UdpSocket, SaysHowMuchItCanQueue) {
  UdpOptions options;
  options.receive_buffer_bytes = 100 << 10;
  EXPECT_EQ(open_udp(options)->limits().receive_buffer_bytes, size_t{100} << 10);
  options.receive_buffer_bytes = size_t{1} << 40;  // more than anybody gets: bounded, not wrapped
  EXPECT_GT(open_udp(options)->limits().receive_buffer_bytes, size_t{100} << 10);
}

// The figure is what it says, for frames from 1 KiB on: that much is queued and nothing is lost.
TEST(UdpSocket, QueuesWhatItSays) {
  UdpOptions options = on("127.0.0.1:0");
  options.receive_buffer_bytes = 2 << 20;
  for (const size_t size : {2068, 8212, 64532}) {
    const auto receiver = open_udp(options);
    const auto sender = open_udp(options);
    const size_t count = receiver->limits().receive_buffer_bytes / size;
    const std::vector<Bytes> frames(count, pattern(1, size));
    EXPECT_EQ(send_all(*sender, frames, receiver->local()), count);
    EXPECT_EQ(collect(*receiver, count).size(), count) << size;
  }
}

}  // namespace
}  // namespace switchml
