#include "watch/peer_connection.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace switchml {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    here = std::make_unique<PeerConnection>(Fd(fds[0]), seconds(10));
    there = Fd(fds[1]);
  }
  /// What arrives of bytes that the other side sends.
  std::vector<PeerMessage> read(const std::string& bytes) {
    EXPECT_EQ(::send(there.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    std::vector<PeerMessage> messages;
    open = here->receive([&](const PeerMessage& message) { messages.push_back(message); }, &error);
    return messages;
  }
  std::unique_ptr<PeerConnection> here;
  Fd there;
  bool open = true;
  int error = 0;
};

TEST(PeerConnection, MessagesArriveWholeHoweverTheyAreCut) {
  Pair pair;
  const std::string bytes = std::string("G\x07\x03\x05", 4) + "hello" + std::string("F\0\0\0", 4);
  std::vector<PeerMessage> all;
  for (const char byte : bytes) {
    for (const PeerMessage& message : pair.read(std::string(1, byte))) all.push_back(message);
  }
  for (const PeerMessage& message : pair.read(bytes)) all.push_back(message);
  ASSERT_EQ(all.size(), 4U);
  for (const size_t i : {0U, 2U}) {
    EXPECT_EQ(all[i].word, PeerWord::kGreeting);
    EXPECT_EQ(all[i].rank, 775);
    EXPECT_EQ(all[i].text, "hello");
    EXPECT_EQ(all[i + 1].word, PeerWord::kFarewell);
    EXPECT_EQ(all[i + 1].text, "");
  }
  EXPECT_TRUE(pair.open);
}

TEST(PeerConnection, WhatOneSendsTheOtherReceives) {
  Pair pair;
  PeerConnection other(std::move(pair.there), seconds(10));
  other.send({PeerWord::kLoss, 1023, std::string(300, 'x')});
  other.finish();
  std::vector<PeerMessage> messages;
  const auto take = [&](const PeerMessage& message) { messages.push_back(message); };
  int error = -1;
  EXPECT_TRUE(pair.here->receive(take, &error));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].word, PeerWord::kLoss);
  EXPECT_EQ(messages[0].rank, 1023);
  EXPECT_EQ(messages[0].text, std::string(255, 'x')) << "cut to what fits";
  EXPECT_FALSE(pair.here->receive(take, &error));
  EXPECT_EQ(error, 0) << "closed";
}

TEST(PeerConnection, NothingToReceiveIsNoError) {
  Pair pair;
  int error = 0;
  EXPECT_TRUE(pair.here->receive([](const PeerMessage&) { FAIL(); }, &error));
}

TEST(PeerConnection, AStrangersWordsEndIt) {
  Pair pair;
  EXPECT_TRUE(pair.read("GET / HTTP/1.1\r\n\r\n" + std::string(300, ' ')).size() <= 1);
  EXPECT_FALSE(pair.open);
  EXPECT_EQ(pair.error, EBADMSG);
}

TEST(PeerConnection, TheKernelLooksAfterTheOtherHost) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  const int fd = socket.get();
  const PeerConnection connection(std::move(socket), seconds(30));
  const auto value = [fd](int level, int option) {
    int out = -1;
    socklen_t size = sizeof out;
    EXPECT_EQ(::getsockopt(fd, level, option, &out, &size), 0);
    return out;
  };
  EXPECT_EQ(value(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(value(IPPROTO_TCP, TCP_KEEPIDLE) + value(IPPROTO_TCP, TCP_KEEPINTVL) * value(IPPROTO_TCP, TCP_KEEPCNT), 30);
  EXPECT_EQ(value(IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
}

}  // namespace
}  // namespace switchml
