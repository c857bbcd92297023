#include "shm/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/fnv.h"
#include "child.h"
#include "integers.h"
#include "shm/local_rank.h"

namespace switchml::shm {
namespace {

using testing::Child;
using ::testing::HasSubstr;
using testing::Ints;
using testing::kLong;
using testing::outcome_of;
using testing::sum_of;

/// Engines of all ranks over one segment.
class Group {
 public:
  explicit Group(const BoardShape& shape) : shape_(shape) {
    auto segment = Segment::create(shape.bytes());
    EXPECT_TRUE(segment.ok());
    segment_ = std::make_shared<Segment>(std::move(segment.value()));
    told_ = std::vector<std::atomic<int>>(static_cast<size_t>(shape.ranks));
    for (int rank = 0; rank < shape.ranks; ++rank) {
      engines_.push_back(start_memory_engine(
          {segment_, shape, rank, [this, rank](const Status&) { ++told_[static_cast<size_t>(rank)]; }}));
    }
  }
  std::future<Status> submit(int rank, Collective collective) {
    auto end = testing::end_of(&collective);
    engine(rank).submit(std::move(collective));
    return end;
  }
  Engine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  void end(int rank) { engines_[static_cast<size_t>(rank)].reset(); }
  /// How often on_failure of a rank was called; waits for the first time if that is to come.
  int told(int rank, bool to_come) const {
    const Time end = monotonic_now() + kLong;
    const auto& told = told_[static_cast<size_t>(rank)];
    while (to_come && told == 0 && monotonic_now() < end) std::this_thread::yield();
    return told;
  }
  const BoardShape& shape() const { return shape_; }

 private:
  const BoardShape shape_;
  std::shared_ptr<Segment> segment_;
  std::vector<std::atomic<int>> told_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

void expect_all_ok(std::vector<std::future<Status>>& outcomes) {
  for (auto& outcome : outcomes) {
    const Status status = outcome_of(outcome);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
}

// ---- results ----

TEST(MemoryEngine, LooksAgainAtAnInputThatHasBecomeReady) {
  Group group(shape_for(2));
  Ints tensors[2] = {Ints(300000, 1), Ints(300000, 2)};
  Watermark ready;
  Collective late = sum_of(tensors[1]);
  late.ready = &ready;
  std::vector<std::future<Status>> outcomes;
  outcomes.push_back(group.submit(0, sum_of(tensors[0])));
  outcomes.push_back(group.submit(1, late));
  for (const size_t elements : {1000, 200000, 300000}) {
    EXPECT_EQ(outcomes[1].wait_for(milliseconds(10)), std::future_status::timeout);
    ready.raise(elements);
    group.engine(1).wake();
  }
  expect_all_ok(outcomes);
  EXPECT_EQ(tensors[0], Ints(300000, 3));
}

TEST(MemoryEngine, SaysWhatItIs) {
  Group group({2, 4, 1024});
  EXPECT_EQ(group.engine(0).memory_bytes(), group.shape().bytes());
  EXPECT_EQ(group.engine(0).shards(), 1);
  Ints tensors[2] = {Ints(1000, 1), Ints(1000, 1)};
  std::vector<std::future<Status>> outcomes;
  for (int rank = 0; rank < 2; ++rank) outcomes.push_back(group.submit(rank, sum_of(tensors[rank])));
  expect_all_ok(outcomes);
  EXPECT_EQ(group.engine(0).counters(0).chunks_completed.get(), 4U);
}

// ---- those who do not go on ----

TEST(MemoryEngine, AnAbortEndsWhatWaits) {
  Group group(shape_for(3));
  std::vector<Ints> tensors(3, Ints(100000, 1));
  auto waiting = group.submit(0, sum_of(tensors[0]));
  auto queued = group.submit(0, sum_of(tensors[1]));
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  group.engine(0).abort("by hand");
  group.engine(0).abort("again");
  auto late = group.submit(0, sum_of(tensors[2]));
  for (auto* future : {&waiting, &queued, &late}) {
    const Status status = outcome_of(*future);
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_THAT(status.message(), HasSubstr("by hand"));
  }
  EXPECT_EQ(group.engine(0).status().code(), Code::kAborted);
  EXPECT_TRUE(group.engine(1).status().ok());
  EXPECT_EQ(group.told(0, true), 1);
}

TEST(MemoryEngine, AnEngineThatEndsIsMissedByTheOthers) {
  Group group(shape_for(3));
  std::vector<Ints> tensors(3, Ints(70000, 1));
  std::vector<std::future<Status>> outcomes;
  for (const int rank : {0, 2}) outcomes.push_back(group.submit(rank, sum_of(tensors[static_cast<size_t>(rank)])));
  group.end(1);
  for (auto& outcome : outcomes) {
    const Status status = outcome_of(outcome);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("1 (left the session)"));
  }
  for (const int rank : {0, 2}) {
    EXPECT_EQ(group.told(rank, true), 1);
    EXPECT_EQ(group.engine(rank).status().code(), Code::kUnavailable);
  }
}

TEST(MemoryEngine, ItsEndEndsWhatWaits) {
  Group group(shape_for(2));
  Ints tensor(10, 1);
  auto waiting = group.submit(0, sum_of(tensor));
  group.end(0);
  EXPECT_EQ(outcome_of(waiting).code(), Code::kAborted);
}

TEST(MemoryEngine, TensorsOfAllSizesInOneQueue) {
  constexpr int kRanks = 3;
  constexpr int kCalls = 300;
  Group group(shape_for(kRanks));
  std::vector<std::vector<Ints>> tensors(kRanks);
  std::vector<std::future<Status>> outcomes;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& mine = tensors[static_cast<size_t>(rank)];
    for (int i = 0; i < kCalls; ++i) mine.emplace_back(i % 3 == 0 ? 50000 : static_cast<size_t>(i) * 31, rank + i);
    for (Ints& tensor : mine) outcomes.push_back(group.submit(rank, sum_of(tensor)));
  }
  expect_all_ok(outcomes);
  for (const auto& mine : tensors) {
    for (int i = 0; i < kCalls; ++i) {
      const Ints& tensor = mine[static_cast<size_t>(i)];
      ASSERT_EQ(tensor, Ints(tensor.size(), 3 + kRanks * i)) << i;
    }
  }
  uint64_t summed = 0;
  for (const Ints& tensor : tensors[0]) summed += tensor.size();
  uint64_t counted = 0;
  for (int shard = 0; shard < group.engine(0).shards(); ++shard) {
    counted += group.engine(0).counters(shard).elements_summed_in_memory.get();
  }
  EXPECT_EQ(counted, summed);
}

TEST(MemoryEngine, ABarrierEndsAfterLargeTensorsThatWereCalledBefore) {
  Group group(shape_for(2));
  std::vector<Ints> tensors(2, Ints(1 << 22, 1));
  std::vector<std::future<Status>> before;
  std::vector<std::future<Status>> barriers;
  for (int rank = 0; rank < 2; ++rank) {
    before.push_back(group.submit(rank, sum_of(tensors[static_cast<size_t>(rank)])));
    Collective barrier;
    barrier.op = ReduceOp::kBarrier;
    barriers.push_back(group.submit(rank, std::move(barrier)));
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(outcome_of(barriers[rank]).ok());
    EXPECT_EQ(before[rank].wait_for(seconds(0)), std::future_status::ready);
  }
}

TEST(MemoryEngine, ALargeTensorAndASmallOneAreADisagreement) {
  Group group(shape_for(3));
  Ints tensors[3] = {Ints(100000, 1), Ints(10, 1), Ints(100000, 1)};
  std::vector<std::future<Status>> outcomes;
  for (int rank = 0; rank < 3; ++rank) outcomes.push_back(group.submit(rank, sum_of(tensors[rank])));
  for (auto& outcome : outcomes) EXPECT_EQ(outcome_of(outcome).code(), Code::kMismatch);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group.told(rank, true), 1);
}

// A rank that has called something small once more meets another's first large one on their board with its second,
// however late it is found on the other board that the first ones differ.
TEST(MemoryEngine, LargeTensorsThatLookAlikeAreNotTakenForEachOther) {
  const BoardShape shape = shape_for(2);
  auto segment = Segment::create(shape.bytes());
  ASSERT_TRUE(segment.ok());
  const auto memory = std::make_shared<Segment>(std::move(segment.value()));
  const Board board(shape, memory->data());
  const auto engine = start_memory_engine({memory, shape, 0, nullptr});
  LocalRank other(board, 1, [](const Status&) {});

  // The engine's next call, which the other rank takes for its call number `number`.
  const auto reduce = [&](Ints* mine, uint64_t number) {
    Ints theirs(mine->size(), 16);
    std::promise<Status> done;
    auto outcome = done.get_future();
    Collective call = sum_of(*mine);
    call.done = [&done](const Status& status) { done.set_value(status); };
    engine->submit(std::move(call));
    Collective same = sum_of(theirs);
    same.tag = fnv1a(&number, sizeof number, same.tag);
    bool same_is_done = false;  // it takes its result, too, before its tensor goes
    same.done = [&same_is_done](const Status&) { same_is_done = true; };
    other.submit(std::move(same));
    const Time end = monotonic_now() + kLong;
    while ((!same_is_done || outcome.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) &&
           monotonic_now() < end) {
      other.step(monotonic_now());
    }
    EXPECT_TRUE(same_is_done);
    return outcome_of(outcome);
  };
  for (uint64_t number = 0; number < 3; ++number) {
    Ints mine(20000, 1);
    const Status status = reduce(&mine, number);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(mine, Ints(20000, 17));
  }
  Ints mine(20000, 1);
  EXPECT_EQ(reduce(&mine, 4).code(), Code::kMismatch);
  EXPECT_EQ(mine, Ints(20000, 1));
}

// Calls that look alike have no order that ranks could differ in.
TEST(MemoryEngine, ThreadsMayCallTheSameAtTheSameTime) {
  Group group(shape_for(2));
  constexpr size_t kCalls = 2000;
  std::vector<Ints> tensors(4 * kCalls, Ints(100, 1));
  std::vector<std::vector<std::future<Status>>> outcomes(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kCalls; ++i) {
        outcomes[t].push_back(group.submit(static_cast<int>(t % 2), sum_of(tensors[t * kCalls + i])));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& mine : outcomes) expect_all_ok(mine);
  EXPECT_EQ(tensors, std::vector<Ints>(4 * kCalls, Ints(100, 2)));
}

// Of either board, and in place of a thread that could do it as well.
TEST(MemoryEngine, ACallerDoesTheWorkOfWhatItCalls) {
  Group group(shape_for(2));
  for (const size_t count : {1U, 1000U, 1U << 20}) {
    Ints tensors[] = {Ints(count, 1), Ints(count, 2)};
    auto end_of_other = group.submit(1, sum_of(tensors[1]));
    std::unique_ptr<CallerTurn> turn;
    for (const Time end = monotonic_now() + kLong; !turn && monotonic_now() < end; std::this_thread::yield()) {
      turn = group.engine(0).begin_turn(0);  // once the thread has let go of the last one
    }
    ASSERT_NE(turn, nullptr);
    EXPECT_EQ(group.engine(0).begin_turn(0), nullptr);
    std::thread::id where;
    Collective collective = sum_of(tensors[0]);
    collective.done = [&where](const Status&) { where = std::this_thread::get_id(); };
    group.engine(0).submit(std::move(collective));
    const auto over = [&where] { return where != std::thread::id(); };
    while (!over()) turn->work_until(over);
    EXPECT_EQ(where, std::this_thread::get_id());
    EXPECT_EQ(tensors[0], Ints(count, 3));
    EXPECT_TRUE(outcome_of(end_of_other).ok());
  }
}

// ---- processes ----

/// A rank of another process: it has nothing of the segment but its descriptor.
class Rank {
 public:
  Rank(const Segment& segment, const BoardShape& shape, int rank) {
    auto own = Segment::adopt(Fd(::dup(segment.fd())), shape.bytes());
    if (!own.ok()) ::_exit(90);
    engine_ = start_memory_engine({std::make_shared<Segment>(std::move(own.value())), shape, rank, nullptr});
  }
  Engine& engine() { return *engine_; }
  /// One sum after the other, of a tensor of ones, until one fails.
  void stream(size_t elements, Duration timeout) {
    tensor_.assign(elements, 1);
    Collective c = sum_of(tensor_);
    c.deadline = timeout == Duration::max() ? kNever : monotonic_now() + timeout;
    c.done = [this, elements, timeout](const Status& status) {
      if (!status.ok()) return failed_.set_value(status);
      ++completed;
      stream(elements, timeout);
    };
    engine_->submit(c);
  }
  /// Why the stream ended.
  Status end() {
    auto future = failed_.get_future();
    return outcome_of(future);
  }

  std::atomic<int> completed{0};

 private:
  Ints tensor_;
  std::promise<Status> failed_;
  std::unique_ptr<Engine> engine_;
};

int sums_are_right(const Segment& segment, const BoardShape& shape, int rank) {
  Rank self(segment, shape, rank);
  for (int i = 0; i < 30; ++i) {
    Ints tensor(static_cast<size_t>(1 + i * 3001), rank + i);
    std::promise<Status> promise;
    Collective c = sum_of(tensor);
    c.done = [&promise](const Status& status) { promise.set_value(status); };
    self.engine().submit(c);
    auto future = promise.get_future();
    if (!outcome_of(future).ok()) return 1;
    const int32_t sum = shape.ranks * (shape.ranks - 1) / 2 + i * shape.ranks;
    if (tensor != Ints(tensor.size(), sum)) return 2;
  }
  return 0;
}

TEST(MemoryEngine, ProcessesReduceInTheSegmentOfOneOfThem) {
  const BoardShape shape = shape_for(3);
  auto segment = Segment::create(shape.bytes());
  ASSERT_TRUE(segment.ok());
  std::vector<Child> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.emplace_back([&, rank] { return sums_are_right(segment.value(), shape, rank); });
  }
  for (Child& child : children) EXPECT_EQ(child.exit_code(), 0);
}

/// A pipe: the child waits until the parent says something.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void wait() const {
    char byte = 0;
    if (::read(ends[0], &byte, 1) != 1) ::_exit(91);
  }
  void say() const { EXPECT_EQ(::write(ends[1], "x", 1), 1); }
  int ends[2];
};

/// Ranks 0 (this process) and 1 stream with rank 2 until that is killed.
class KilledRank {
 public:
  explicit KilledRank(Duration timeout)
      : segment_(Segment::create(shape_.bytes())),
        victim_([&] {
          Rank self(segment_.value(), shape_, 2);
          self.stream(kElements, Duration::max());
          return self.end().ok() ? 92 : 93;
        }),
        survivor_([&] {
          Rank self(segment_.value(), shape_, 1);
          self.stream(kElements, timeout);
          if (timeout == Duration::max()) {
            pipe_.wait();
            self.engine().fail(dead());
          }
          return static_cast<int>(self.end().code());
        }),
        self_(segment_.value(), shape_, 0) {
    self_.stream(kElements, timeout);
  }

  void kill_after(int collectives, Duration then) {
    const Time end = monotonic_now() + kLong;
    while (self_.completed < collectives && monotonic_now() < end) std::this_thread::sleep_for(microseconds(100));
    std::this_thread::sleep_for(then);
    ASSERT_GE(self_.completed, collectives);
    victim_.kill();
  }
  /// This rank first: else it might find the other one gone before it is told.
  void tell() {
    self_.engine().fail(dead());
    pipe_.say();
  }
  /// How the streams of this process and of the other survivor end.
  void expect(Code code, const std::string& text) {
    const Status mine = self_.end();
    EXPECT_EQ(mine.code(), code) << mine.to_string();
    EXPECT_THAT(mine.message(), HasSubstr(text));
    EXPECT_EQ(survivor_.exit_code(), static_cast<int>(code));
  }

 private:
  static Status dead() { return {Code::kUnavailable, "rank 2 is dead"}; }
  static constexpr size_t kElements = 50000;

  const BoardShape shape_{3, 4, 8192};
  Result<Segment> segment_;
  Pipe pipe_;
  Child victim_;
  Child survivor_;
  Rank self_;
};

TEST(MemoryEngine, ARankThatIsKilledIsSurvivedByThoseWhoAreTold) {
  for (int round = 0; round < 12; ++round) {
    KilledRank trial(Duration::max());
    trial.kill_after(2 + round, microseconds(round * 37));
    trial.tell();
    trial.expect(Code::kUnavailable, "rank 2 is dead");
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(MemoryEngine, ARankThatIsKilledIsNamedWhenTimeIsUp) {
  KilledRank trial(seconds(3));
  trial.kill_after(1, Duration(0));
  trial.expect(Code::kTimeout, "rank 2");
}

}  // namespace
}  // namespace switchml::shm
