// Messengers over TCP, stepped in one thread: what comes, from whom, and what becomes of connections that end.
#include "messages/tcp_message_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tcp_messengers.h"

namespace switchml {
namespace {

using shm::testing::End;
using ::testing::HasSubstr;
using testing::kLarge;
using testing::TcpMessengers;

constexpr size_t kShort = 16 * 1024;

INSTANTIATE_TEST_SUITE_P(Connections, TcpMessengers, ::testing::Bool(), testing::name_of_sealed);

TEST_P(TcpMessengers, MoveMessagesOfEverySizeWhoeverIsFirst) {
  begin(2);
  for (const size_t bytes : {size_t{0}, size_t{1}, kShort, kShort + 1, kLarge}) {
    for (const bool send_first : {true, false}) {
      End& first = send_first ? send(0, 1, 3, bytes, 7) : receive(1, 0, 3, bytes);
      for (int i = 0; i < 20; ++i) step(i % 2);
      End& second = send_first ? receive(1, 0, 3, bytes) : send(0, 1, 3, bytes, 7);
      step_until([&] { return first.ends > 0 && second.ends > 0; });
      EXPECT_TRUE(first.ok() && second.ok()) << bytes;
      EXPECT_EQ(first.data, second.data);
    }
  }
}

TEST_P(TcpMessengers, MoveLargeOnesBothWaysAtOnce) {
  begin(3);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      for (int tag = 0; from != to && tag < 3; ++tag) {
        send(from, to, tag, kLarge, static_cast<uint8_t>(9 * from + 3 * to + tag));
        receive(to, from, tag, kLarge);
      }
    }
  }
  step_until([&] { return std::all_of(ends.begin(), ends.end(), [](const End& end) { return end.ends > 0; }); });
  for (size_t i = 0; i < ends.size(); i += 2) {
    EXPECT_TRUE(ends[i].ok() && ends[i + 1].ok());
    EXPECT_EQ(ends[i].data, ends[i + 1].data);
  }
}

// What no rank asks for stays with its sender, but for a bounded part; the rest of the messages goes past it.
TEST_P(TcpMessengers, SendNoMoreUnaskedThanAllowed) {
  begin(2);
  for (int i = 0; i < 100; ++i) send(0, 1, 1, kShort, static_cast<uint8_t>(i));
  End& other = receive(1, 0, 2, kLarge);
  send(0, 1, 2, kLarge, 5);
  step_until([&] { return other.ends > 0; });
  const auto done = [&] {
    return std::count_if(ends.begin(), ends.end(), [](const End& end) { return end.ends > 0; });
  };
  EXPECT_EQ(done(), 4 + 2);
  for (int i = 0; i < 100; ++i) receive(1, 0, 1, kShort);
  step_until([&] { return ends.back().ends > 0; });
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(ends[102 + i].data, ends[i].data);
  send(0, 1, 1, kShort);
  step_until([&] { return ends.back().ends > 0; });
}

TEST_P(TcpMessengers, TellOfAnotherSizeAndGoOn) {
  begin(2);
  for (const size_t bytes : {size_t{8}, 4 * kShort}) {
    End& sent = send(0, 1, 0, bytes);
    End& received = receive(1, 0, 0, bytes / 2);
    step_until([&] { return sent.ends > 0 && received.ends > 0; });
    EXPECT_TRUE(sent.ok());
    EXPECT_EQ(received.outcome.code(), Code::kMismatch);
  }
  End& again = receive(1, 0, 0, 4);
  send(0, 1, 0, 4, 3);
  step_until([&] { return again.ends > 0; });
  EXPECT_TRUE(again.ok());
}

// ---- departure ----

// By its connections, or, of one that has none, by others.
TEST_P(TcpMessengers, FindAllThatARankSentBeforeItLeft) {
  for (const bool told_by_others : {false, true}) {
    messengers.clear();
    transports.clear();
    begin(3);
    End& sent = send(0, 1, 1, kShort, 4);
    End& offered = send(0, 1, 2, kShort + 1);
    for (int i = 0; i < 1000 && sent.ends == 0; ++i) step(0);
    leave(0);
    EXPECT_THAT(offered.error(), HasSubstr("the end"));
    if (told_by_others) {
      for (int other : {1, 2}) transports[static_cast<size_t>(other)]->note_left(0);
    }
    End& received = receive(1, 0, 1, kShort);
    End& never = receive(1, 0, 2, kShort + 1);
    End& refused = send(1, 0, 3, 4);
    End& unknown = receive(2, 0, 0, 4);
    step_until([&] { return never.ends > 0 && received.ends > 0 && unknown.ends > 0; });
    EXPECT_TRUE(received.ok()) << received.error();
    EXPECT_EQ(received.data, sent.data);
    EXPECT_THAT(never.error(), HasSubstr("rank 0 left the session"));
    EXPECT_EQ(refused.ends, 1);
    EXPECT_THAT(unknown.error(), HasSubstr(told_by_others ? "rank 0 left the session" : "Connection refused"));
    EXPECT_TRUE(rank(1).status().ok()) << "it goes on with the others";
  }
}

TEST_P(TcpMessengers, HearOfALeaveThroughTheirOwnConnection) {
  begin(2);
  End& received = receive(1, 0, 1, 4);
  for (int i = 0; i < 50; ++i) step(1), step(0);
  leave(0);
  step_until([&] { return received.ends > 0; });
  EXPECT_THAT(received.error(), HasSubstr("rank 0 left the session"));
}

TEST_P(TcpMessengers, AreBusyUntilARefusalHasBeenTold) {
  begin(2);
  kill(1);
  send(0, 1, 1, 4);
  bool is_busy = true;
  step_until([&] {
    const bool is_lost = transports[0]->state(1) == MessageTransport::State::kLost;
    is_busy = is_busy && (is_lost || rank(0).is_busy());
    return is_lost;
  });
  EXPECT_TRUE(is_busy) << "nothing would step it";
}

TEST_P(TcpMessengers, SayWhyARankGaveUp) {
  begin(2);
  End& received = receive(1, 0, 1, 4);
  send(0, 1, 2, 4);
  step_until([&] { return ends.back().ends > 0; });
  for (int i = 0; i < 20; ++i) step(1);
  rank(0).fail(Status(Code::kTimeout, "it took too long"));
  step_until([&] { return received.ends > 0; });
  EXPECT_THAT(received.error(), HasSubstr("rank 0 gave up: it took too long"));
}

TEST_P(TcpMessengers, EndAMomentAfterAConnectionBroke) {
  begin(2);
  End& received = receive(1, 0, 1, 4);
  send(0, 1, 2, 4);
  for (int i = 0; i < 40; ++i) step(i % 2);
  kill(0);
  step_until([&] { return received.ends > 0; });
  EXPECT_THAT(received.error(), HasSubstr("rank 0 is not reached: its connection"));
}

}  // namespace
}  // namespace switchml
