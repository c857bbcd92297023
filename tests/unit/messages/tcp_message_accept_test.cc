// Who may connect to a rank for messages.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>

#include "messages/tcp_message_wire.h"
#include "tcp_messengers.h"

namespace switchml {
namespace {

using shm::testing::End;
using testing::kLarge;
using testing::TcpMessengers;

class TcpMessageAccept : public TcpMessengers {};
INSTANTIATE_TEST_SUITE_P(Connections, TcpMessageAccept, ::testing::Bool(), testing::name_of_sealed);

TEST_P(TcpMessageAccept, HearNoStrangers) {
  begin(2);
  std::deque<Fd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(stranger(1));
  MessageGreeting wrong;
  wrong.key = 7;
  strangers.push_back(greet(1, wrong).release());
  EXPECT_GT(::send(strangers.front().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  End& received = receive(1, 0, 1, kLarge);
  send(0, 1, 1, kLarge, 3);
  step_until([&] { return received.ends > 0; });
  EXPECT_TRUE(received.ok()) << received.error();
  const auto is_closed = [](const Fd& fd) {
    int error = 0;
    return is_over(fd.get(), &error);
  };
  step_until([&] { return is_closed(strangers.front()) && is_closed(strangers.back()); });
}

TEST_P(TcpMessageAccept, TakeARankOnce) {
  begin(2);
  End& received = receive(1, 0, 1, 4);
  send(0, 1, 1, 4, 3);
  step_until([&] { return received.ends > 0; });
  MessageGreeting greeting;
  greeting.key = 101;
  const ByteStream second = greet(1, greeting);
  int error = 0;
  step_until([&] { return is_over(second.fd(), &error); });
  End& again = receive(1, 0, 1, 4);
  send(0, 1, 1, 4, 5);
  step_until([&] { return again.ends > 0; });
  EXPECT_TRUE(again.ok());
}

TEST_P(TcpMessageAccept, StrangersDoNotPutOffALeave) {
  begin(2);
  std::deque<Fd> strangers;
  strangers.push_back(stranger(1));
  End& first = receive(1, 0, 1, 4);
  send(0, 1, 1, 4);
  step_until([&] { return first.ends > 0; });
  End& received = receive(1, 0, 1, 4);
  leave(0);
  step_until([&] {
    strangers.push_back(stranger(1));
    return received.ends > 0;
  });
  EXPECT_NE(received.error().find("rank 0 left the session"), std::string::npos) << received.error();
}

TEST_P(TcpMessageAccept, GoesOnWhenThereAreDescriptorsAgain) {
  begin(2);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const Fd next(::dup(0));
  const rlimit none{static_cast<rlim_t>(next.get()), limit.rlim_max};
  End& received = receive(1, 0, 1, 4);
  for (const bool connects : {false, true}) {  // First there is none to connect with, then none to accept with.
    const rlimit few{none.rlim_cur + (connects ? 2 : 1), limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, connects ? &few : &none), 0);
    if (!connects) send(0, 1, 1, 4, 3);
    for (int i = 0; i < 20; ++i) {
      step(0);
      step(1);
    }
  }
  EXPECT_EQ(received.ends, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  step_until([&] { return received.ends > 0; });
  EXPECT_TRUE(received.ok()) << received.error();
}

TEST_P(TcpMessageAccept, ARankThatSpeaksNonsenseIsTheEnd) {
  const MessageRecord unasked{MessageRecord::kPiece, 0, 0, 4, 0};
  const MessageRecord unoffered{MessageRecord::kWanted, 0, 77, 0, 0};
  const MessageRecord unknown{99, 0, 0, 0, 0};
  for (const MessageRecord& nonsense : {unasked, unoffered, unknown}) {
    SCOPED_TRACE(nonsense.kind);
    messengers.clear();
    transports.clear();
    begin(2);
    End& received = receive(1, 0, 1, 8);
    EXPECT_TRUE(transports[0]->put(1, nonsense, "nul", static_cast<size_t>(nonsense.bytes)).ok());
    step_until([&] { return received.ends > 0; });
    EXPECT_NE(received.error().find("rank 0 does not speak as a rank does"), std::string::npos) << received.error();
    EXPECT_FALSE(rank(1).status().ok());
  }
}

}  // namespace
}  // namespace switchml
