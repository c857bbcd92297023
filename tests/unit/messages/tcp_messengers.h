// Messengers over TCP, stepped in one thread: as they are, and sealed.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "messages/messenger.h"
#include "messages/tcp_message_wire.h"
#include "shm/mail_memory.h"
#include "tcp_ranks.h"

namespace switchml::testing {

using shm::testing::End;

inline constexpr size_t kLarge = 3 << 20;  // more than the kernel's buffers and the transport's hold
inline constexpr Duration kLong = seconds(120);

/// The parameter: whether connections are sealed.
class TcpMessengers : public ::testing::TestWithParam<bool> {
 protected:
  void begin(int ranks, const std::function<void(TcpRanks&)>& before = {}) {
    tcp = std::make_unique<TcpRanks>(ranks, GetParam());
    if (before) before(*tcp);
    for (int rank = 0; rank < ranks; ++rank) {
      transports.push_back(tcp->transport(rank));
      messengers.push_back(std::make_unique<Messenger>(*transports.back()));
    }
  }
  Messenger& rank(int number) { return *messengers[static_cast<size_t>(number)]; }
  End& send(int from, int to, int tag, size_t bytes, uint8_t first = 0) {
    End& end = ends.emplace_back(to, tag, bytes, first);
    rank(from).send(end.sent());
    return end;
  }
  End& receive(int at, int source, int tag, size_t bytes) {
    End& end = ends.emplace_back(source, tag, bytes, 99);
    rank(at).receive(end.received());
    return end;
  }
  void step(int number) {
    rank(number).step(monotonic_now());
    for (const MessageOutcome& outcome : rank(number).outcomes()) outcome.done(outcome.status, outcome.source);
  }
  /// Steps all ranks, but for one that `stopped` names.
  void step_until(const std::function<bool()>& over, int stopped = -1) {
    const Time end = monotonic_now() + kLong;
    while (!over() && monotonic_now() < end) {
      for (size_t number = 0; number < messengers.size(); ++number) {
        if (static_cast<int>(number) != stopped && messengers[number] != nullptr) step(static_cast<int>(number));
      }
    }
    EXPECT_TRUE(over());
  }
  /// As its process would, without a word.
  void kill(int number) {
    messengers[static_cast<size_t>(number)].reset();
    transports[static_cast<size_t>(number)].reset();
  }
  void leave(int number) {
    rank(number).fail(Status(Code::kAborted, "the end"));
    step(number);
    transports[static_cast<size_t>(number)]->linger();
    kill(number);
  }
  Fd stranger(int at) {
    Endpoint source;
    int error = 0;
    Fd fd = connect_tcp({}, tcp->door(at).address, &source, &error);
    EXPECT_TRUE(fd.valid());
    pollfd polled{fd.get(), POLLOUT, 0};
    ::poll(&polled, 1, 60'000);
    return fd;
  }

  /// What a stranger begins with that knows this greeting's key, and how to seal it.
  ByteStream greet(int at, const MessageGreeting& greeting) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&greeting);
    ByteStream stream(stranger(at), tcp->door(at).sealed, {bytes, sizeof greeting});
    EXPECT_EQ(stream.send({}), 0);
    return stream;
  }

  std::unique_ptr<TcpRanks> tcp;
  std::vector<std::unique_ptr<MessageTransport>> transports;
  std::vector<std::unique_ptr<Messenger>> messengers;
  std::deque<End> ends;
};

inline std::string name_of_sealed(const ::testing::TestParamInfo<bool>& sealed) {
  return sealed.param ? "Sealed" : "Plain";
}

}  // namespace switchml::testing
