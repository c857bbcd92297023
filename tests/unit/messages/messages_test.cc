// Messages with their threads, in this process and between processes.
#include "messages/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "shm/arena.h"
#include "shm/child.h"
#include "shm/integers.h"
#include "shm/mail_memory.h"
#include "shm/mail_transport.h"
#include "tcp_ranks.h"

namespace switchml::shm {
namespace {

using testing::Child;
using ::testing::HasSubstr;
using testing::kLong;

constexpr size_t kManyPieces = 3 * Mail::kMaxCapacity + 5;

/// One end whose outcome is awaited.
struct Awaited {
  explicit Awaited(size_t bytes, uint8_t fill = 0) : data(bytes, fill) {}
  Message message(int peer, int tag) {
    Message result;
    result.peer = peer;
    result.tag = tag;
    result.from = result.to = data.data();
    result.bytes = data.size();
    result.done = [this](const Status& status, int from) {
      source = from;
      outcome = status;
      over = true;  // the last: who waits may take the memory back
    };
    return result;
  }
  Status wait() {
    const Time end = monotonic_now() + kLong;
    while (!over && monotonic_now() < end) std::this_thread::sleep_for(microseconds(100));
    return over ? outcome : Status(Code::kInternal, "it does not end");
  }
  std::vector<uint8_t> data;
  int source = -1;
  Status outcome;
  std::atomic<bool> over{false};
};

std::unique_ptr<MessageTransport> transport_of(const std::shared_ptr<const Segment>& segment, const BoardShape& shape,
                                               int rank) {
  return std::make_unique<MailTransport>(Mail(shape.ranks, segment->data() + mail_begin(shape)), rank, segment);
}

enum class Way { kMemory, kTcp, kSealedTcp };

class MailThreads {
 public:
  MailThreads(int ranks, Way way) {
    const BoardShape shape = shape_for(ranks);
    auto segment = Segment::create(segment_bytes(shape, 0));
    EXPECT_TRUE(segment.ok());
    const auto memory = std::make_shared<const Segment>(std::move(segment.value()));
    switchml::testing::TcpRanks tcp(ranks, way == Way::kSealedTcp);
    for (int rank = 0; rank < ranks; ++rank) {
      auto transport = way != Way::kMemory ? tcp.transport(rank) : transport_of(memory, shape, rank);
      ranks_.push_back(std::make_unique<Messages>(std::move(transport), kSpin));
    }
  }
  Messages& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  Awaited& send(int from, int to, int tag, size_t bytes, uint8_t fill = 1) {
    Awaited& post = posts.emplace_back(bytes, fill);
    (*this)[from].send(post.message(to, tag));
    return post;
  }
  Awaited& receive(int at, int source, int tag, size_t bytes) {
    Awaited& post = posts.emplace_back(bytes);
    (*this)[at].receive(post.message(source, tag));
    return post;
  }
  void end() { ranks_.clear(); }
  ~MailThreads() { end(); }

  std::deque<Awaited> posts;

 private:
  std::vector<std::unique_ptr<Messages>> ranks_;
};

void work(Messages& messages, const Awaited& post) {
  const Time end = monotonic_now() + kLong;
  while (!post.over && monotonic_now() < end) messages.work_until([&] { return post.over.load(); }, end);
}

class MessagesOverEach : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Transports, MessagesOverEach, ::testing::Values(Way::kMemory, Way::kTcp, Way::kSealedTcp),
                         [](const auto& way) {
                           return way.param == Way::kMemory ? "Memory" : way.param == Way::kTcp ? "Tcp" : "SealedTcp";
                         });

TEST_P(MessagesOverEach, ComeThoughNobodyWorksForThem) {
  for (const size_t bytes : {size_t{0}, size_t{4}, kManyPieces}) {
    MailThreads host(2, GetParam());
    Awaited& sent = host.send(0, 1, 7, bytes, 5);
    Awaited& received = host.receive(1, 0, 7, bytes);
    EXPECT_TRUE(sent.wait().ok());
    EXPECT_TRUE(received.wait().ok());
    EXPECT_EQ(received.data, sent.data);
    EXPECT_EQ(received.source, 0);
    EXPECT_EQ(host[1].counters().bytes_moved_in_memory.get(), bytes);
  }
}

TEST_P(MessagesOverEach, AreTheWorkOfWhoeverWaits) {
  MailThreads host(2, GetParam());
  std::thread other([&] {
    for (int i = 0; i < 300; ++i) {
      Awaited received(4096);
      host[1].receive(received.message(0, 0));
      work(host[1], received);
      Awaited sent(received.data.size(), received.data[9]);
      host[1].send(sent.message(0, 1));
      work(host[1], sent);
    }
  });
  for (int i = 0; i < 300; ++i) {
    Awaited sent(4096, static_cast<uint8_t>(i));
    host[0].send(sent.message(1, 0));
    work(host[0], sent);
    Awaited received(4096);
    host[0].receive(received.message(1, 1));
    work(host[0], received);
    ASSERT_EQ(received.data, sent.data);
  }
  other.join();
}

TEST_P(MessagesOverEach, OneCallerWorksForAll) {
  MailThreads host(2, GetParam());
  Awaited& never = host.receive(0, 1, 9, 4);
  std::atomic<bool> works{false};
  std::thread caller([&] {
    EXPECT_TRUE(host[0].work_until([&] { return works = true, never.over.load(); }, monotonic_now() + kLong));
  });
  while (!works) std::this_thread::yield();
  EXPECT_FALSE(host[0].work_until([] { return false; }, monotonic_now() + kLong)) << "at once";
  Awaited& received = host.receive(0, 1, 0, kManyPieces);
  Awaited& sent = host.send(1, 0, 0, kManyPieces);
  EXPECT_TRUE(received.wait().ok());
  EXPECT_TRUE(sent.wait().ok());
  host.send(1, 0, 9, 4);
  caller.join();
}

// The thread has ended a message and has not told of it yet; the caller that waits for it goes to sleep.
TEST_P(MessagesOverEach, WakeACallerThatSleptBeforeItWasTold) {
  MailThreads host(2, GetParam());
  std::promise<void> telling;
  std::atomic<int> questions{0};
  std::atomic<bool> over{false};
  Awaited received(4);
  Message message = received.message(1, 0);
  message.done = [&](const Status&, int) {
    telling.set_value();
    int before = -1;  // A caller that sleeps asks no more.
    while (std::exchange(before, questions.load()) != questions || before == 0) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    over = true;
  };
  host[0].receive(std::move(message));
  host.send(1, 0, 0, 4);
  telling.get_future().wait();
  const Time end = monotonic_now() + kLong;
  EXPECT_TRUE(host[0].work_until([&] { return ++questions, over.load(); }, end));
  EXPECT_LT(monotonic_now(), end);
}

TEST_P(MessagesOverEach, LeaveTheRestToTheThread) {
  MailThreads host(2, GetParam());
  Awaited& received = host.receive(0, 1, 0, kManyPieces);
  EXPECT_TRUE(host[0].work_until([&] { return received.over.load(); }, monotonic_now())) << "no time";
  host.send(1, 0, 0, kManyPieces);
  EXPECT_TRUE(received.wait().ok());
}

TEST_P(MessagesOverEach, TellOfATimeout) {
  MailThreads host(2, GetParam());
  std::promise<Status> told;
  host[0].when_failed([&](const Status& status) { told.set_value(status); });
  Awaited late(4);
  Message message = late.message(1, 3);
  message.deadline = monotonic_now() + milliseconds(20);
  host[0].receive(std::move(message));
  const Status status = late.wait();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_THAT(status.message(), HasSubstr("recv of 4 bytes from rank 1 with tag 3"));
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(seconds(0)), std::future_status::ready) << "before the call ended";
  EXPECT_EQ(future.get().code(), Code::kTimeout);
  Awaited& other = host.send(1, 0, 0, kManyPieces);
  EXPECT_THAT(other.wait().message(), HasSubstr("rank 0 gave up: recv of 4 bytes from rank 1"));
}

TEST_P(MessagesOverEach, ObserveAnEarlierDeadline) {
  MailThreads host(2, GetParam());
  Awaited later(4);
  Message message = later.message(1, 0);
  message.deadline = monotonic_now() + kLong;
  host[0].receive(std::move(message));
  Awaited sooner(4);
  message = sooner.message(1, 1);
  message.deadline = monotonic_now() + milliseconds(20);
  host[0].receive(std::move(message));
  EXPECT_THAT(sooner.wait().message(), HasSubstr("with tag 1"));
  EXPECT_FALSE(later.wait().ok());
}

TEST_P(MessagesOverEach, EndWithAnErrorFromOutside) {
  MailThreads host(2, GetParam());
  host[0].when_failed([](const Status&) { FAIL() << "who fails them knows"; });
  Awaited& waited_for = host.receive(0, 1, 0, 4);
  Awaited& other = host.send(0, 1, 1, kManyPieces);
  std::thread caller([&] { work(host[0], waited_for); });
  host[0].fail(Status(Code::kUnavailable, "rank 1 is gone"));
  caller.join();
  EXPECT_EQ(waited_for.wait().message(), "rank 1 is gone");
  EXPECT_EQ(other.wait().message(), "rank 1 is gone");
  EXPECT_FALSE(host.send(0, 1, 0, 4).wait().ok());
  host[0].when_failed(nullptr);
}

TEST_P(MessagesOverEach, EndWhenTheyAreClosed) {
  MailThreads host(2, GetParam());
  Awaited& here = host.receive(0, 1, 0, 4);
  Awaited& there = host.receive(1, 0, 0, 4);
  std::thread caller([&] { work(host[0], here); });
  host[0].close();
  caller.join();
  host[0].close();
  EXPECT_EQ(here.wait().code(), Code::kAborted);
  EXPECT_THAT(there.wait().message(), HasSubstr("rank 0 left the session"));
  EXPECT_FALSE(host[0].work_until([] { return false; }, kNever));
}

TEST_P(MessagesOverEach, TakeManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  MailThreads host(2, GetParam());
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kThreads; ++i) {
    threads.emplace_back([&host, rank = i % 2, tag = i / 2] {
      for (int number = 0; number < kEach; ++number) {
        const size_t bytes = number % 10 == 0 ? kManyPieces : 1000;
        Awaited sent(bytes, static_cast<uint8_t>(number + tag));
        Awaited received(bytes);
        host[rank].receive(received.message(1 - rank, tag));
        host[rank].send(sent.message(1 - rank, tag));
        work(host[rank], received);
        work(host[rank], sent);
        ASSERT_EQ(received.data, sent.data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A rank that is killed at any point leaves nothing that keeps another one from going on, or from ending.
TEST(Messages, OutliveAProcessThatIsKilled) {
  for (int round = 0; round < 20; ++round) {
    const BoardShape shape = shape_for(3);
    auto made = Segment::create(segment_bytes(shape, 0));
    ASSERT_TRUE(made.ok());
    const int descriptor = ::dup(made->fd());
    const auto serve = [&](int rank) {
      auto own = Segment::adopt(Fd(::dup(descriptor)), segment_bytes(shape, 0));
      if (!own.ok()) return 1;
      Messages messages(transport_of(std::make_shared<const Segment>(std::move(own.value())), shape, rank), kSpin);
      for (;;) {
        Awaited received(kManyPieces);
        messages.receive(received.message(0, 0));
        work(messages, received);
        Awaited sent(kManyPieces, received.data[0]);
        messages.send(sent.message(0, 0));
        work(messages, sent);
      }
    };
    Child victim([&] { return serve(1); });
    Child other([&] { return serve(2); });
    Messages mine(transport_of(std::make_shared<const Segment>(std::move(made.value())), shape, 0), kSpin);
    std::deque<Awaited> posts;
    const auto exchange = [&](int peer) -> Awaited& {
      mine.send(posts.emplace_back(kManyPieces, 7).message(peer, 0));
      Awaited& back = posts.emplace_back(kManyPieces);
      mine.receive(back.message(peer, 0));
      return back;
    };
    for (int i = 0; i < 3; ++i) exchange(1);
    work(mine, exchange(1));
    Awaited& lost = exchange(1);
    std::this_thread::sleep_for(microseconds(137 * round));
    victim.kill();
    Awaited& came = exchange(2);
    work(mine, came);
    EXPECT_EQ(came.data[kManyPieces - 1], 7);
    mine.fail(Status(Code::kUnavailable, "rank 1 is gone"));
    EXPECT_TRUE(lost.over);
    for (const Awaited& post : posts) EXPECT_TRUE(post.over);
    ::close(descriptor);
  }
}

}  // namespace
}  // namespace switchml::shm
