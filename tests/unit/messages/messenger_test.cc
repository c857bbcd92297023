// The messengers of a host in one thread, stepped in any order: what they do, and that it is what any order allows.
#include "messages/messenger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "shm/mail_memory.h"
#include "shm/mail_transport.h"

namespace switchml::shm {
namespace {

using testing::End;
using ::testing::HasSubstr;
using testing::MailMemory;

constexpr size_t kMoreThanARing = 3 * Mail::kMaxCapacity + 5;  // more than a ring holds

class Messengers {
 public:
  explicit Messengers(int ranks) : memory_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(std::make_unique<MailTransport>(memory_.mail(), rank));
      messengers_.push_back(std::make_unique<Messenger>(*transports_.back()));
    }
  }
  Messenger& operator[](int rank) { return *messengers_[static_cast<size_t>(rank)]; }
  End& send(int from, int to, int tag, size_t bytes, uint8_t first = 0) {
    End& end = ends.emplace_back(to, tag, bytes, first);
    (*this)[from].send(end.by(deadline).sent());
    return end;
  }
  End& receive(int at, int source, int tag, size_t bytes) {
    End& end = ends.emplace_back(source, tag, bytes, 99);
    (*this)[at].receive(end.by(deadline).received());
    return end;
  }
  bool step(int rank) {
    const bool more = (*this)[rank].step(now);
    for (const MessageOutcome& outcome : (*this)[rank].outcomes()) outcome.done(outcome.status, outcome.source);
    return more;
  }
  bool has_work(int rank) const { return transports_[static_cast<size_t>(rank)]->has_work(); }
  void fail(int rank, const Status& status) {
    (*this)[rank].fail(status);
    step(rank);
  }
  /// Until nobody has anything to do.
  void settle() {
    for (bool more = true; more;) {
      more = false;
      for (int rank = 0; rank < memory_.mail().ranks(); ++rank) more = step(rank) || more;
      for (int rank = 0; rank < memory_.mail().ranks(); ++rank) {
        more = more || ((*this)[rank].status().ok() && has_work(rank));
      }
    }
  }
  const Mail& mail() const { return memory_.mail(); }

  Time now{seconds(1000)};
  Time deadline = kNever;
  std::deque<End> ends;

 private:
  MailMemory memory_;
  std::vector<std::unique_ptr<MessageTransport>> transports_;
  std::vector<std::unique_ptr<Messenger>> messengers_;
};

// ---- what comes ----

TEST(Messenger, MovesMessagesOfEverySizeWhoeverIsFirst) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{16 * 1024}, size_t{16 * 1024 + 1}, kMoreThanARing}) {
    for (const bool send_first : {true, false}) {
      Messengers host(2);
      if (send_first) host.send(0, 1, 3, bytes, 7);
      if (send_first) host.settle();
      End& received = host.receive(1, 0, 3, bytes);
      if (!send_first) host.settle();
      End& sent = send_first ? host.ends.front() : host.send(0, 1, 3, bytes, 7);
      host.settle();
      EXPECT_TRUE(sent.ok() && received.ok()) << bytes;
      EXPECT_EQ(received.data, sent.data);
      EXPECT_EQ(received.source, 0);
      EXPECT_EQ(host[1].counters().bytes_moved_in_memory.get(), bytes);
      EXPECT_EQ(host[0].counters().bytes_moved_in_memory.get(), 0U);
      EXPECT_FALSE(host[0].is_busy() || host[1].is_busy());
    }
  }
}

TEST(Messenger, KeepsMoreThanARingHolds) {
  Messengers host(16);
  const size_t many = 3 * Mail::capacity(16) / sizeof(MessageRecord);
  for (size_t i = 0; i < many; ++i) host.send(0, 1, 0, i % 2, static_cast<uint8_t>(i));
  host.settle();
  EXPECT_FALSE(host.ends.back().ok());
  for (size_t i = 0; i < many; ++i) host.receive(1, 0, 0, i % 2);
  host.settle();
  for (size_t i = 0; i < many; ++i) {
    ASSERT_TRUE(host.ends[i].ok() && host.ends[many + i].ok());
    ASSERT_EQ(host.ends[many + i].data, host.ends[i].data) << "in their order";
  }
}

// Its ring is full of what it has sent, and its own calls have ended.
TEST(Messenger, OwesAnswersThoughItsOwnCallsHaveEnded) {
  Messengers host(128);
  std::vector<End*> offered;
  for (int i = 0; i < 20; ++i) offered.push_back(&host.send(0, 1, 1, 200));
  End& large = host.send(1, 0, 2, Mail::capacity(128) * 3 / 4);
  host.settle();
  host.receive(0, 1, 2, large.data.size());
  host.step(0);
  for (int i = 0; i < 3; ++i) host.step(1);
  ASSERT_TRUE(large.ok());
  for (int i = 0; i < 20; ++i) host.receive(1, 0, 1, 4);
  host.step(1);
  for (size_t i = 21 + 1; i < host.ends.size(); ++i) EXPECT_EQ(host.ends[i].ends, 1);
  EXPECT_TRUE(host[1].is_busy()) << "or nobody would write the rest of its answers";
  host.settle();
  for (const End* one : offered) EXPECT_TRUE(one->ok());
  EXPECT_FALSE(host[0].is_busy() || host[1].is_busy());
}

TEST(Messenger, TakesTheEarliestOfAnyRank) {
  Messengers host(4);
  for (const int from : {2, 1, 3}) {
    host.send(from, 0, 5, from == 1 ? 20000 : 4, static_cast<uint8_t>(from));
    while (host.step(from)) {
    }
  }
  for (const int from : {2, 1, 3}) {
    End& received = host.receive(0, kAnySource, 5, from == 1 ? 20000 : 4);
    host.settle();
    EXPECT_TRUE(received.ok()) << received.error();
    EXPECT_EQ(received.source, from);
    EXPECT_EQ(received.data[0], from);
  }
}

TEST(Messenger, NamesSizesThatDiffer) {
  for (const size_t bytes : {size_t{80}, size_t{20000}}) {
    Messengers host(2);
    End& sent = host.send(0, 1, 3, bytes);
    End& received = host.receive(1, 0, 3, 40);
    host.settle();
    EXPECT_EQ(received.error(), "mismatch: recv of 40 bytes from rank 0 with tag 3 got a message of " +
                                    std::to_string(bytes) +
                                    " bytes from rank 0, which is gone: both ends must name as many");
    EXPECT_EQ(received.data[0], 99) << "written to";
    EXPECT_TRUE(sent.ok());
    host.send(0, 1, 3, 40);
    End& next = host.receive(1, 0, 3, 40);
    host.settle();
    EXPECT_TRUE(next.ok()) << "the group goes on";
  }
}

TEST(Messenger, DoesNothingOfItsOwnSignal) {
  Messengers host(2);
  host.mail().signal(0, 0);
  EXPECT_TRUE(host.has_work(0));
  EXPECT_FALSE(host.step(0));
  EXPECT_FALSE(host.has_work(0));
}

// ---- what does not come to its end ----

TEST(Messenger, SaysWhatItWaitedFor) {
  const auto late = [](const std::function<End&(Messengers&)>& post,
                       const std::function<void(Messengers&)>& then = {}) {
    Messengers host(2);
    host.deadline = host.now + seconds(5);
    End& end = post(host);
    host.settle();
    if (then) then(host);
    host.now += seconds(5) - nanoseconds(1);
    host.step(0);
    EXPECT_EQ(end.ends, 0);
    EXPECT_EQ(host[0].next_wakeup(), host.deadline);
    host.now += nanoseconds(1);
    host.step(0);
    EXPECT_EQ(host[0].status().code(), Code::kTimeout);
    return end.error();
  };
  const auto sends = [](size_t bytes) {
    return [bytes](Messengers& host) -> End& { return host.send(0, 1, 3, bytes); };
  };
  EXPECT_EQ(
      late([](Messengers& host) -> End& { return host.receive(0, 1, 3, 80); }),
      "timeout: recv of 80 bytes from rank 1 with tag 3 did not complete before its timeout passed: rank 1 has not "
      "sent it; is it dead, stopped, or does it not make that call?");
  EXPECT_THAT(late([](Messengers& host) -> End& { return host.receive(0, kAnySource, 3, 80); }),
              HasSubstr("recv of 80 bytes from any rank with tag 3"));
  EXPECT_THAT(late(sends(kMoreThanARing)), HasSubstr("send of " + std::to_string(kMoreThanARing) +
                                                     " bytes to rank 1 with tag 3 did not complete before its timeout "
                                                     "passed: rank 1 has not asked for it"));
  const auto stops = [](Messengers& host) {
    host.receive(1, 0, 3, kMoreThanARing);
    host.step(1);
    host.step(0);
  };
  EXPECT_THAT(late(sends(kMoreThanARing), stops), HasSubstr("rank 1 has asked for it, and has read no more than"));
}

TEST(Messenger, ForgetsDeadlinesThatWereKept) {
  Messengers host(2);
  host.deadline = host.now + seconds(1);
  host.send(0, 1, 0, 4);
  host.receive(1, 0, 0, 4);
  host.deadline = host.now + seconds(9);
  End& open = host.receive(1, 0, 0, 4);
  host.settle();
  host.now += seconds(8);
  host.settle();
  EXPECT_EQ(open.ends, 0);
  EXPECT_EQ(host[1].next_wakeup(), host.deadline);
  EXPECT_EQ(host[0].next_wakeup(), kNever);
}

TEST(Messenger, EndsWhatWaitsForARankThatLeaves) {
  Messengers host(3);
  host.send(1, 0, 7, 4, 1);
  End& offered = host.send(1, 0, 8, kMoreThanARing);
  host.settle();
  End& wanted = host.receive(0, 1, 5, 4);
  End& unsent = host.send(0, 1, 5, kMoreThanARing);
  End& any = host.receive(0, kAnySource, 6, 4);
  End& other = host.receive(0, 2, 5, 4);
  host.settle();
  host.fail(1, Status(Code::kAborted, "the end"));
  EXPECT_EQ(offered.error(), "aborted: the end");
  host.settle();
  EXPECT_EQ(wanted.error(),
            "unavailable: recv of 4 bytes from rank 1 with tag 5 cannot complete: rank 1 left the session");
  EXPECT_THAT(unsent.error(), HasSubstr("rank 1 left the session"));
  EXPECT_EQ(any.ends, 0);
  EXPECT_EQ(other.ends, 0);
  EXPECT_TRUE(host[0].status().ok()) << "it goes on with the others";
  End& early = host.receive(0, 1, 7, 4);
  End& late = host.receive(0, 1, 8, kMoreThanARing);
  End& to_nobody = host.send(0, 1, 0, 4);
  host.settle();
  EXPECT_TRUE(early.ok()) << "it was sent before";
  EXPECT_THAT(late.error(), HasSubstr("rank 1 left the session"));
  EXPECT_THAT(to_nobody.error(), HasSubstr("rank 1 left the session"));
  host.fail(2, Status(Code::kUnavailable, "rank 7 is gone"));
  host.settle();
  EXPECT_THAT(other.error(), HasSubstr("rank 2 gave up: rank 7 is gone"));
  EXPECT_THAT(any.error(), HasSubstr("all other ranks are gone; rank 2 gave up"));
}

TEST(Messenger, LetsWhatIsWrittenComeThoughItsSenderLeaves) {
  Messengers host(2);
  End& received = host.receive(1, 0, 0, 100000);
  End& sent = host.send(0, 1, 0, 100000, 5);
  for (int i = 0; i < 9 && !sent.ok(); ++i) host.step(i % 2);
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(received.ends, 0);
  host.fail(0, Status(Code::kAborted, "the end"));
  host.settle();
  EXPECT_TRUE(received.ok()) << received.error();
  EXPECT_EQ(received.data, sent.data);
}

TEST(Messenger, FailsAllAndWhatComesLater) {
  Messengers host(2);
  host.send(0, 1, 0, kMoreThanARing);
  host.receive(0, 1, 0, 4);
  host.receive(0, kAnySource, 1, 4);
  host.settle();
  host.fail(0, Status(Code::kUnavailable, "rank 1 is gone"));
  host.fail(0, Status(Code::kAborted, "later"));
  host.send(0, 1, 0, 4);
  host.receive(0, 1, 0, 4);
  host.step(0);
  EXPECT_EQ(host.ends.size(), 5U);
  for (const End& end : host.ends) EXPECT_EQ(end.error(), "unavailable: rank 1 is gone");
  EXPECT_FALSE(host[0].is_busy());
}

// ---- any order, against what a model allows ----

/// Messages of three tags: those of 0 are received from ranks that are named, of 1 from any, of 2 from either.
class RandomMessengers {
 public:
  explicit RandomMessengers(uint64_t seed) : random_(seed), ranks_(2 + static_cast<int>(seed % 3)), host_(ranks_) {
    constexpr std::array<size_t, 4> kSizes = {16, 5000, 16 * 1024 + 1, 600000};
    for (size_t& size : sizes_) size = kSizes[random_() % kSizes.size()];
  }

  /// Posts and steps in any order. At `stop` some rank stops for ever.
  void run(int actions, int stop = -1) {
    for (int i = 0; i < actions; ++i) {
      const int rank = any_rank();
      if (i == stop) stopped_ = rank;
      if (rank == stopped_) continue;
      if (random_() % 4 == 0) {
        post(rank);
      } else {
        host_.step(rank);
      }
    }
    for (int idle = 0; idle < 100; ++idle) {  // what is to be read may have been written a moment ago
      const int rank = any_rank();
      if (rank != stopped_ && (host_.has_work(rank) || host_.step(rank))) host_.step(rank), idle = 0;
    }
  }

  /// Each message is received once at most, and those of one sender and tag in their order.
  void check_order() {
    std::map<std::array<int, 3>, uint64_t> next;
    for (const Posted& one : posted_) {
      if (one.sends || !one.end->ok()) continue;
      uint64_t number = 0;
      std::memcpy(&number, one.end->data.data(), sizeof number);
      EXPECT_TRUE(one.peer == kAnySource || one.peer == one.end->source);
      const std::array<int, 3> stream = {one.end->source, one.rank, one.tag};
      EXPECT_GE(number, next[stream]);
      EXPECT_LT(number, numbers_[stream]);
      EXPECT_EQ(one.end->data.back(), mark(one.end->source, number));
      next[stream] = number + 1;
      ++received_[stream];
    }
  }
  /// No receive waits for what has been sent. Behind check_order().
  void check_nothing_waits() {
    for (const Posted& one : posted_) {
      if (one.sends || one.end->ends > 0 || one.rank == stopped_) continue;
      for (int source = 0; source < ranks_; ++source) {
        if (source == stopped_ || (one.peer != kAnySource && one.peer != source)) continue;
        const std::array<int, 3> stream = {source, one.rank, one.tag};
        EXPECT_EQ(received_[stream], numbers_[stream]) << "rank " << one.rank << " waits for " << source;
      }
    }
  }
  void check_all_end() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank != stopped_) host_.fail(rank, Status(Code::kAborted, "the end"));
    }
    for (const Posted& one : posted_) EXPECT_TRUE(one.rank == stopped_ || one.end->ends == 1);
  }

 private:
  struct Posted {
    int rank;
    int peer;
    int tag;
    bool sends;
    End* end;
  };
  int any_rank() { return static_cast<int>(random_() % static_cast<uint64_t>(ranks_)); }
  static uint8_t mark(int source, uint64_t number) {
    return static_cast<uint8_t>(number * 7 + static_cast<uint64_t>(source));
  }
  // A message says its number among those of its sender, receiver and tag.
  void post(int rank) {
    int peer = any_rank();
    if (peer == rank) return;
    const int tag = static_cast<int>(random_() % 3);
    const size_t bytes = sizes_[static_cast<size_t>(tag)];
    const bool sends = random_() % 2 == 0;
    if (!sends && (tag == 1 || (tag == 2 && random_() % 2 == 0))) peer = kAnySource;
    End& end = sends ? host_.send(rank, peer, tag, bytes) : host_.receive(rank, peer, tag, bytes);
    posted_.push_back({rank, peer, tag, sends, &end});
    if (!sends) return;
    const uint64_t number = numbers_[{rank, peer, tag}]++;
    std::memcpy(end.data.data(), &number, sizeof number);
    end.data.back() = mark(rank, number);
  }

  std::mt19937_64 random_;
  const int ranks_;
  Messengers host_;
  int stopped_ = -1;
  std::array<size_t, 3> sizes_{};
  std::deque<Posted> posted_;
  std::map<std::array<int, 3>, uint64_t> numbers_;   // of messages: by sender, receiver and tag
  std::map<std::array<int, 3>, uint64_t> received_;  // likewise
};

TEST(Messenger, DoesWhatTheModelAllowsInAnyOrder) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomMessengers host(seed);
    host.run(600);
    host.check_order();
    host.check_nothing_waits();
    host.check_all_end();
    if (HasFailure()) return;
  }
}

TEST(Messenger, GoesOnWithTheOthersWhenOneStops) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomMessengers host(seed);
    host.run(600, static_cast<int>(seed * 4));
    host.check_order();
    host.check_all_end();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace switchml::shm
