#include "watch/peer_connection.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace switchml {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    here = std::make_unique<PeerConnection>(ByteStream(Fd(fds[0]), nullptr), seconds(10));
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
  PeerConnection other(ByteStream(std::move(pair.there), nullptr), seconds(10));
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

// What one seals is whole there, and what another one puts in between ends the connection.
TEST(PeerConnection, IsSealed) {
  const seal::StreamDoorOwner owner(random_seal_key(), random_bytes);
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  PeerConnection rank(ByteStream(Fd(fds[0]), owner.door(), {}), seconds(10));
  PeerConnection rank_0(ByteStream(Fd(fds[1]), &owner), seconds(10));
  rank.send({PeerWord::kGreeting, 7, "hello"});
  rank.send({PeerWord::kNews, 7, "news"});
  std::vector<std::string> texts;
  const auto take = [&](const PeerMessage& message) { texts.push_back(message.text); };
  int error = 0;
  while (texts.size() < 2) ASSERT_TRUE(rank_0.receive(take, &error));
  rank_0.send({PeerWord::kGreeting, 0, "back"});
  ASSERT_TRUE(rank.receive(take, &error));
  EXPECT_EQ(texts, (std::vector<std::string>{"hello", "news", "back"}));
  const std::string farewell("F\0\0\0", 4);
  ASSERT_EQ(::send(rank.fd(), farewell.data(), farewell.size(), 0), 4);
  ASSERT_EQ(::send(rank.fd(), std::string(300, 'x').data(), 300, 0), 300);
  EXPECT_FALSE(rank_0.receive(take, &error));
  EXPECT_EQ(error, EBADMSG);
  EXPECT_EQ(texts.size(), 3U);
}

// A process that was killed may have had no time for the rest.
TEST(PeerConnection, ThatEndsWithinAPieceHasEnded) {
  const seal::StreamDoorOwner owner(random_seal_key(), random_bytes);
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  PeerConnection rank_0(ByteStream(Fd(fds[1]), &owner), seconds(10));
  {
    const Fd begins(fds[0]);
    ASSERT_EQ(::send(begins.get(), "a part", 6, 0), 6);
  }
  int error = -1;
  EXPECT_FALSE(rank_0.receive([](const PeerMessage&) { FAIL(); }, &error));
  EXPECT_EQ(error, 0);
}

TEST(PeerConnection, TheKernelLooksAfterTheOtherHost) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  const int fd = socket.get();
  const PeerConnection connection(ByteStream(std::move(socket), nullptr), seconds(30));
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
