// What a host on the path of messages sees, and what becomes of ranks when it changes something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "relay.h"
#include "tcp_messengers.h"

namespace switchml {
namespace {

using shm::testing::End;
using ::testing::HasSubstr;
using testing::Relay;
using testing::TcpMessengers;

const std::string kPattern = "a pattern that a rank sends, and that is known";

class OnThePath : public TcpMessengers {
 protected:
  /// Two ranks, with a relay before rank 1's door.
  void begin_relayed(Relay::Change change) {
    begin(2, [&](testing::TcpRanks& ranks) {
      relay = std::make_unique<Relay>(ranks.door(1).address, std::move(change));
      ranks.door(1).address = relay->address();
    });
  }
  End& send_pattern(size_t bytes) {
    End& sent = ends.emplace_back(1, 3, bytes, 0);
    for (size_t i = 0; i < bytes; ++i) sent.data[i] = static_cast<uint8_t>(kPattern[i % kPattern.size()]);
    rank(0).send(sent.sent());
    return sent;
  }
  void step_relayed_until(const std::function<bool()>& over) {
    step_until([&] { return relay->step(), over(); });
  }

  std::unique_ptr<Relay> relay;
};
INSTANTIATE_TEST_SUITE_P(Connections, OnThePath, ::testing::Bool(), testing::name_of_sealed);

TEST_P(OnThePath, SeesNothingOfWhatIsSealed) {
  begin_relayed([](std::string*, size_t) {});
  End& received = receive(1, 0, 3, 300'000);
  const End& sent = send_pattern(300'000);
  step_relayed_until([&] { return received.ends > 0; });
  ASSERT_TRUE(received.ok()) << received.error();
  EXPECT_TRUE(received.data == sent.data);
  const uint64_t key = tcp->door(1).key;
  std::string shown(sizeof key, ' ');
  std::memcpy(shown.data(), &key, sizeof key);
  for (const std::string& text : {kPattern.substr(0, 12), shown}) {
    const bool is_seen = relay->carried().find(text) != std::string::npos;
    EXPECT_EQ(is_seen, !GetParam()) << "plain ones show it, or this could not be seen";
  }
}

class SealedOnThePath : public OnThePath {};
INSTANTIATE_TEST_SUITE_P(Connections, SealedOnThePath, ::testing::Values(true), testing::name_of_sealed);

// In the middle of a message, and of what the connection begins with.
TEST_P(SealedOnThePath, ChangedBytesBreakTheConnection) {
  for (const size_t where : {size_t{10}, size_t{60}, size_t{200'000}}) {
    SCOPED_TRACE(where);
    messengers.clear();
    transports.clear();
    begin_relayed([where](std::string* bytes, size_t at) {
      if (at <= where && where < at + bytes->size()) (*bytes)[where - at] = static_cast<char>((*bytes)[where - at] ^ 4);
    });
    End& sent = send_pattern(300'000);
    End& next = send(0, 1, 4, testing::kLarge);
    End& received = receive(1, 0, 3, 300'000);
    const std::vector<uint8_t> before = received.data;
    const bool begins = where < 100;  // Rank 1 never knows whose connection it was.
    step_relayed_until([&] { return next.ends > 0 && (begins || received.ends > 0); });
    for (const End* lost : {&sent, &next}) {
      EXPECT_TRUE(lost->ok() || lost->error().find("rank 1 is not reached: its connection") != std::string::npos);
    }
    EXPECT_FALSE(next.ok());
    if (begins) continue;
    EXPECT_THAT(received.error(), HasSubstr("rank 0 is not reached: its connection broke: what came is not what was "
                                            "sealed: it was altered, repeated or lost on its way"));
    EXPECT_TRUE(received.data != before) << "or nothing had come before";
    int wrong = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (received.data[i] != before[i] && received.data[i] != sent.data[i]) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << "no byte that was not sent";
  }
}

TEST_P(SealedOnThePath, ARecordedConnectionIsNotTakenAgain) {  // [SEAL-31]
  begin_relayed([](std::string*, size_t) {});
  End& received = receive(1, 0, 3, 1000);
  send_pattern(1000);
  step_relayed_until([&] { return received.ends > 0; });
  const Fd again = relay->connected();
  Relay::put(again, relay->carried());
  End& twice = receive(1, 0, 3, 1000);
  int error = 0;
  step_relayed_until([&] { return is_over(again.get(), &error); });
  EXPECT_EQ(twice.ends, 0);
  send_pattern(1000);
  step_relayed_until([&] { return twice.ends > 0; });
  EXPECT_TRUE(twice.ok()) << twice.error();
}

}  // namespace
}  // namespace switchml
