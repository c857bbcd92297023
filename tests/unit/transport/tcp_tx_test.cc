#include "transport/tcp_tx.h"

#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <numeric>

#include "transport/harness.h"
#include "transport/raw_tcp.h"

namespace switchml {
namespace {

/// A stream whose receiving end takes bytes only when the test says so.
struct Pipe {
  Fd from, to;
  Pipe() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    from = Fd(fds[0]);
    to = Fd(fds[1]);
  }
  Bytes read() {
    Bytes all(1 << 22);
    size_t got = 0;
    for (ssize_t n = 0; (n = ::recv(to.get(), all.data() + got, all.size() - got, 0)) > 0;)
      got += static_cast<size_t>(n);
    all.resize(got);
    return all;
  }
};

std::vector<uint32_t> first(size_t count) {
  std::vector<uint32_t> burst(count);
  std::iota(burst.begin(), burst.end(), 0U);
  return burst;
}

/// Half of the bytes of each are its rest.
std::vector<TxFrame> tx_of(const std::vector<Bytes>& frames) {
  std::vector<TxFrame> out;
  for (const Bytes& frame : frames) {
    const auto size = static_cast<uint32_t>(frame.size()), head = size - size / 2;
    out.push_back({frame.data(), head, nullptr, frame.data() + head, size / 2});
  }
  return out;
}

void append(Bytes* stream, const Bytes& bytes) { stream->insert(stream->end(), bytes.begin(), bytes.end()); }

// Under a steady load it is never empty.
TEST(SendQueue, MemoryIsBoundedWhateverPassesThrough) {
  constexpr size_t kLimit = 100'000;
  SendQueue queue;
  uint32_t in = 0;
  uint32_t out = 0;
  const auto fill = [&] {
    while (queue.size() + 1000 <= kLimit) {
      const Bytes bytes = pattern(in++, 1000);
      queue.append(bytes.data(), bytes.size());
    }
  };
  for (int round = 0; round < 3000; ++round) {
    fill();
    for (int i = 0; i < 1 + round % 99; ++i) {
      ASSERT_EQ(Bytes(queue.data(), queue.data() + 1000), pattern(out++, 1000));
      queue.drop(1000);
    }
    ASSERT_GT(queue.size(), 0U);
    ASSERT_LE(queue.memory_bytes(), 4 * kLimit);
  }
}

TEST(SendQueue, AnEmptyOneGivesMuchMemoryBack) {
  SendQueue queue;
  const Bytes bytes = pattern(1, SendQueue::kKeptBytes + 1);
  queue.append(bytes.data(), bytes.size());
  queue.drop(bytes.size());
  EXPECT_EQ(queue.memory_bytes(), 0U);
  queue.append(bytes.data(), 1000);
  queue.drop(1000);
  EXPECT_GE(queue.memory_bytes(), 1000U) << "little is kept";
}

TEST(TcpSender, MoreFramesThanOneCallTakesAreSentInOrder) {
  Pipe pipe;
  TcpSender sender(0, 0, SIZE_MAX);
  SendQueue queue;
  std::vector<Bytes> frames;
  Bytes expected;
  for (uint32_t i = 0; i < 600; ++i) {
    frames.push_back(pattern(i, 1 + i % 90));
    if (i % 3 == 0) append(&expected, on_the_wire(frames.back()));
  }
  std::vector<uint32_t> burst;
  for (uint32_t i = 0; i < 600; i += 3) burst.push_back(i);
  int error = 0;
  EXPECT_EQ(sender.send(pipe.from.get(), &queue, tx_of(frames).data(), burst, &error), burst.size());
  EXPECT_EQ(error, 0);
  EXPECT_EQ(pipe.read(), expected);
}

// Whatever the kernel cuts, and wherever: what was taken comes whole and in order, and nothing else comes.
TEST(TcpSender, WhatWasTakenComesWholeAndInOrder) {  // [TCP-8]
  for (const size_t queue_bytes : {size_t{0}, size_t{3000}, size_t{200'000}}) {
    Pipe pipe;
    const auto sender = std::make_unique<TcpSender>(queue_bytes, queue_bytes, SIZE_MAX);
    SendQueue queue;
    Bytes expected, got;
    size_t refused = 0;
    size_t queued_most = 0;
    uint32_t id = 0;
    for (int round = 0; round < 60; ++round) {
      std::vector<Bytes> frames;
      for (int i = 0; i < 20; ++i, ++id) frames.push_back(pattern(id, 1 + (id * 7919) % 30000));
      int error = 0;
      const size_t taken = sender->send(pipe.from.get(), &queue, tx_of(frames).data(), first(frames.size()), &error);
      ASSERT_EQ(error, 0);
      for (size_t i = 0; i < taken; ++i) append(&expected, on_the_wire(frames[i]));
      refused += frames.size() - taken;
      queued_most = std::max(queued_most, queue.size());
      if (round % 4 == 3) append(&got, pipe.read());
    }
    EXPECT_GT(refused, 0U);
    EXPECT_GT(queued_most, 0U);
    EXPECT_LE(queued_most, std::max<size_t>(queue_bytes, 30000 + kStreamPrefixBytes));
    int error = 0;
    while (queue.size() != 0) {
      append(&got, pipe.read());
      sender->send(pipe.from.get(), &queue, nullptr, {}, &error);
      ASSERT_EQ(error, 0);
    }
    append(&got, pipe.read());
    EXPECT_TRUE(got == expected) << queue_bytes << ": " << got.size() << " bytes of " << expected.size();
  }
}

/// Fills the pipe, so that all that comes later is queued.
void fill(const Pipe& pipe) {
  const Bytes bytes(4096);
  while (::send(pipe.from.get(), bytes.data(), bytes.size(), 0) > 0) continue;
}

// Whatever one queue may hold: together they hold so much, and a frame each.
TEST(TcpSender, AllQueuesTogetherAreBounded) {
  constexpr size_t kFrame = 1000;
  constexpr size_t kAll = 10 * (kFrame + kStreamPrefixBytes);
  const auto sender = std::make_unique<TcpSender>(8 * (kFrame + kStreamPrefixBytes), kFrame + kStreamPrefixBytes, kAll);
  const std::vector<Bytes> frames(8, pattern(1, kFrame));
  std::vector<Pipe> pipes(4);
  std::vector<SendQueue> queues(4);
  std::vector<size_t> taken;
  int error = 0;
  const auto send = [&](size_t to) {
    return sender->send(pipes[to].from.get(), &queues[to], tx_of(frames).data(), first(frames.size()), &error);
  };
  for (size_t i = 0; i < pipes.size(); ++i) {
    fill(pipes[i]);
    taken.push_back(send(i));
  }
  EXPECT_EQ(taken, (std::vector<size_t>{8, 2, 1, 1}));
  EXPECT_EQ(send(3), 0U) << "it has a frame already";
  sender->discard(&queues[0]);
  EXPECT_EQ(send(3), 6U) << "what is gone makes room";
  pipes[3].read();
  EXPECT_EQ(send(3), 8U);
  EXPECT_EQ(queues[3].size(), 0U);
  EXPECT_EQ(send(2), 7U) << "what has left makes room";
  EXPECT_EQ(error, 0);
}

TEST(TcpSender, ADeadConnectionSaysWhy) {
  Pipe pipe;
  TcpSender sender(1000, 1000, SIZE_MAX);
  SendQueue queue;
  pipe.to = Fd();
  const std::vector<Bytes> frames(3, pattern(1, 10));
  int error = 0;
  EXPECT_EQ(sender.send(pipe.from.get(), &queue, tx_of(frames).data(), first(3), &error), 0U);
  EXPECT_EQ(error, EPIPE);
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace switchml
