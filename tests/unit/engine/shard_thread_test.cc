// The thread around a shard, with the real clock.
#include "engine/shard_thread.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "arithmetic.h"
#include "base/processors.h"
#include "lone_shard.h"
#include "transport/frame_memory.h"
#include "transport/shared_link.h"

namespace switchml {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

/// Waits as long as it is not woken, whatever the timeout, so that a wake that is forgotten shows. Notes the timeouts.
class WakeTransport final : public Transport {
 public:
  struct Notes {
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
    bool gave_up = false;
    std::vector<Duration> timeouts;
    std::vector<std::vector<uint8_t>> sent;
    bool obey_timeouts = false;
    std::atomic<int> receives{0};

    /// False if that takes too long.
    template <typename F>
    bool until(F&& condition) {
      std::unique_lock<std::mutex> lock(mutex);
      return changed.wait_for(lock, kPatience, [&] { return condition(); });
    }
  };
  explicit WakeTransport(std::shared_ptr<Notes> notes) : notes_(std::move(notes)) {}

  const char* name() const override { return "wake"; }
  TransportLimits limits() const override { return {65507, 0, 0}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    for (size_t i = 0; i < count; ++i) notes_->sent.emplace_back(frames[i].data, frames[i].data + frames[i].size);
    notes_->changed.notify_all();
    return count;
  }
  size_t receive(RxFrame*, size_t) override {
    ++notes_->receives;
    return 0;
  }
  void release() override {}
  void wait(Duration timeout) override {
    std::unique_lock<std::mutex> lock(notes_->mutex);
    notes_->timeouts.push_back(timeout);
    notes_->changed.notify_all();
    if (notes_->obey_timeouts) {
      notes_->changed.wait_for(lock, timeout, [this] { return notes_->woken; });
    } else if (!notes_->changed.wait_for(lock, kPatience, [this] { return notes_->woken; })) {
      notes_->gave_up = true;
    }
    notes_->woken = false;
  }
  void wake() override {
    const std::lock_guard<std::mutex> lock(notes_->mutex);
    notes_->woken = true;
    notes_->changed.notify_all();
  }
  std::string take_error() override { return {}; }

 private:
  std::shared_ptr<Notes> notes_;
  FrameMemory memory_;
};

using Notes = std::shared_ptr<WakeTransport::Notes>;

std::unique_ptr<Shard> make_shard(const Notes& notes, Duration lease = seconds(10000)) {
  EngineOptions options;
  options.session.lease = lease;
  options.session.workers = 2;
  return std::make_unique<Shard>(0, options, std::make_unique<WakeTransport>(notes), monotonic_now(),
                                 [](const Status&) {});
}

/// Shards of one link, each with a switch and a lease of its own, as of several sessions.
std::vector<std::shared_ptr<Shard>> shards_of_one_link(const Notes& notes, const std::vector<Duration>& leases) {
  std::vector<Endpoint> switches(leases.size());
  for (size_t i = 0; i < switches.size(); ++i) {
    switches[i].size = 1;
    switches[i].bytes[0] = static_cast<uint8_t>(i);
  }
  auto links = share_link(std::make_unique<WakeTransport>(notes), switches);
  std::vector<std::shared_ptr<Shard>> shards;
  for (size_t i = 0; i < leases.size(); ++i) {
    EngineOptions options;
    options.session.lease = leases[i];
    options.session.workers = 2;
    options.session.exact = true;
    options.session.switch_endpoint = switches[i];
    shards.push_back(std::make_shared<Shard>(0, options, std::move(links[i]), monotonic_now(), [](const Status&) {}));
  }
  return shards;
}

size_t threads() {
  size_t count = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(tasks);
  return count;
}

/// A thread that was joined may still be listed for a moment: the kernel tells its end before it takes it off the list.
size_t threads_after_a_join(size_t expected) {
  for (int i = 0; i < 1000 && threads() != expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return threads();
}

std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

/// A barrier whose end is seen by until().
std::shared_ptr<SharedCollective> a_barrier(std::function<void(const Status&)> done) {
  Collective c;
  c.op = ReduceOp::kBarrier;
  c.done = std::move(done);
  return std::make_shared<SharedCollective>(c, 1);
}

TEST(ShardThread, ASubmissionWakesIt) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  const std::shared_ptr<Shard> shard = make_shard(notes);
  ShardThread thread({shard});
  ASSERT_TRUE(notes->until([&] { return !notes->timeouts.empty(); })) << "it sleeps when there is nothing to do";
  shard->submit(a_barrier({}), {});
  ASSERT_TRUE(notes->until([&] { return !notes->sent.empty(); }));
  EXPECT_FALSE(notes->gave_up);
}

TEST(ShardThread, WorksOnAThreadOfItsOwnWithDefaultArithmetic) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  std::string name;
  testing::Arithmetic arithmetic;
  bool done = false;
  const std::shared_ptr<Shard> shard = make_shard(notes);
  std::unique_ptr<ShardThread> thread;
  {
    const testing::StrangeArithmetic strange;
    arithmetic = testing::Arithmetic();
    thread = std::make_unique<ShardThread>(std::vector<std::shared_ptr<Shard>>{shard});
  }
  const auto barrier = a_barrier([&](const Status&) {
    const std::lock_guard<std::mutex> lock(notes->mutex);
    name = thread_name();
    arithmetic = testing::Arithmetic();
    done = true;
    notes->changed.notify_all();
  });
  shard->submit(barrier, {});
  shard->request_failure(Status(Code::kAborted, "for the test"));
  ASSERT_TRUE(notes->until([&] { return done; }));
  EXPECT_EQ(name, "switchml-0");
  EXPECT_EQ(arithmetic.rounding, FE_TONEAREST);
  EXPECT_EQ(arithmetic.flags, 0U);
}

TEST(ShardThread, StopEndsTheThreadAndTakesTheLastStep) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  const size_t before = threads_after_a_join(1);  // those of earlier tests may still be on their way out
  ASSERT_GT(before, 0U);
  const std::shared_ptr<Shard> shard = make_shard(notes);
  ShardThread thread({shard});
  EXPECT_EQ(threads(), before + 1);
  ASSERT_TRUE(notes->until([&] { return !notes->timeouts.empty(); }));
  thread.stop();
  EXPECT_EQ(threads_after_a_join(before), before);
  EXPECT_FALSE(notes->gave_up) << "stop() wakes it";
  thread.stop();  // again: nothing

  // Whatever is asked for before stop() is done by it, at the latest.
  const auto more = std::make_shared<WakeTransport::Notes>();
  const std::shared_ptr<Shard> last = make_shard(more);
  ShardThread other({last});
  std::vector<Status> told;
  last->submit(a_barrier([&](const Status& status) { told.push_back(status); }), {});
  last->request_failure(Status(Code::kAborted, "shut down"));
  other.stop();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].message(), "shut down");
}

TEST(ShardThread, DestructionStops) {
  const size_t before = threads_after_a_join(1);  // those of earlier tests may still be on their way out
  for (int i = 0; i < 20; ++i) {
    const auto notes = std::make_shared<WakeTransport::Notes>();
    const std::shared_ptr<Shard> shard = make_shard(notes);
    ShardThread thread({shard});
  }
  EXPECT_EQ(threads_after_a_join(before), before);
}

TEST(ShardThread, SleepsNoLongerThanTheNextTimer) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  notes->obey_timeouts = true;
  const Time begin = monotonic_now();
  const ShardThread thread({make_shard(notes, milliseconds(400))});  // a sign of life is due every 100 ms
  ASSERT_TRUE(notes->until([&] { return notes->sent.size() >= 3; }));
  EXPECT_GE(monotonic_now() - begin, milliseconds(300));
  const std::lock_guard<std::mutex> lock(notes->mutex);
  for (const Duration timeout : notes->timeouts) {
    EXPECT_GT(timeout, Duration(0));
    EXPECT_LE(timeout, milliseconds(100));
  }
  EXPECT_LT(notes->timeouts.size(), 100U) << "it does not spin";
}

// Between sleeps it looks for results, but only while it waits for some; the timers go on meanwhile.
TEST(ShardThread, LooksAroundForResultsBeforeItSleeps) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  notes->obey_timeouts = true;
  const std::shared_ptr<Shard> shard = make_shard(notes);
  ShardThread thread({shard}, microseconds(200));
  ASSERT_TRUE(notes->until([&] { return !notes->timeouts.empty(); }));
  {
    const std::lock_guard<std::mutex> lock(notes->mutex);
    EXPECT_LE(notes->receives, static_cast<int>(notes->timeouts.size())) << "nothing is under way";
  }
  shard->submit(a_barrier({}), {});
  ASSERT_TRUE(notes->until([&] { return notes->sent.size() >= 3; })) << "it repeats what is not answered";
  const std::lock_guard<std::mutex> lock(notes->mutex);
  EXPECT_GT(notes->receives, static_cast<int>(notes->timeouts.size()) + 10);
}

/// A switch of one worker behind a link that carries a frame in 100 us, each a millisecond later.
class SlowLink final : public Transport {
 public:
  explicit SlowLink(std::atomic<int>* pauses) : pauses_(pauses) {}
  const char* name() const override { return "slow"; }
  TransportLimits limits() const override { return {65507, 0, 0}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      due_ = std::max(due_ + microseconds(100), monotonic_now() + milliseconds(1));
      under_way_.emplace_back(due_, testing::result_of({frames[i].data, frames[i].data + frames[i].size}));
    }
    return count;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    size_t n = 0;
    for (; n < count && !under_way_.empty() && under_way_.front().first <= monotonic_now(); ++n) {
      lent_.push_back(std::move(under_way_.front().second));
      under_way_.pop_front();
      frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), {}};
    }
    return n;
  }
  void release() override { lent_.clear(); }
  void wait(Duration) override { std::this_thread::sleep_for(microseconds(100)); }
  void pause(Duration timeout) override {
    ++*pauses_;
    std::this_thread::sleep_for(timeout);
  }
  void wake() override {}
  std::string take_error() override { return {}; }

 private:
  std::atomic<int>* pauses_;
  Time due_{};
  std::deque<std::pair<Time, std::vector<uint8_t>>> under_way_;
  std::deque<std::vector<uint8_t>> lent_;
  FrameMemory memory_;
};

TEST(ShardThread, LetsResultsOfALongStreamGather) {
  std::atomic<int> pauses{0};
  EngineOptions options;
  options.session.workers = 1;
  options.session.slots = kLeastSlotsForBulk;
  options.session.payload_bytes = 1024;
  const auto shard =
      std::make_shared<Shard>(0, options, std::make_unique<SlowLink>(&pauses), monotonic_now(), [](const Status&) {});
  ShardThread thread({shard});
  std::vector<int32_t> tensor(2000 * 256, 3);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Status> ends;
  Collective all = testing::in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  all.done = [&](const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    ends.push_back(status);
    changed.notify_all();
  };
  shard->submit(std::make_shared<SharedCollective>(all, 1), {0, tensor.size()});
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, kPatience, [&] { return !ends.empty(); }));
  EXPECT_TRUE(ends[0].ok());
  EXPECT_GT(pauses.load(), 0);
  EXPECT_LT(pauses.load(), 1000);  // fewer than half as many as there are chunks
}

// ---- a caller in its place ----

/// A link to an aggregator of one worker, which is the side work: what is sent is answered in its step(), and noted.
class OwnAggregator final : public SideWork {
 public:
  class Link final : public Transport {
   public:
    explicit Link(OwnAggregator& aggregator) : aggregator_(aggregator) {}
    const char* name() const override { return "own"; }
    TransportLimits limits() const override { return {65507, 0, 0}; }
    Endpoint local() const override { return {}; }
    size_t path_frame_bytes(const Endpoint&) const override { return 65507; }
    uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
    size_t send(const TxFrame* frames, size_t count) override {
      const std::lock_guard<std::mutex> lock(aggregator_.mutex);
      for (size_t i = 0; i < count; ++i) {
        aggregator_.asked.push_back(testing::result_of({frames[i].data, frames[i].data + frames[i].size}));
      }
      return count;
    }
    size_t receive(RxFrame* frames, size_t count) override {
      const std::lock_guard<std::mutex> lock(aggregator_.mutex);
      size_t n = 0;
      for (; n < count && !aggregator_.answers.empty(); ++n) {
        lent_.push_back(std::move(aggregator_.answers.front()));
        aggregator_.answers.pop_front();
        frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), {}};
      }
      return n;
    }
    void release() override { lent_.clear(); }
    void wait(Duration timeout) override { waker_.wait(-1, std::min<Duration>(timeout, milliseconds(1))); }
    int readable() const override { return event_.get(); }
    void wake() override { waker_.wake(); }
    std::string take_error() override { return {}; }

   private:
    OwnAggregator& aggregator_;
    const Fd event_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    Waker waker_;
    std::deque<std::vector<uint8_t>> lent_;
    FrameMemory memory_;
  };

  bool take() override { return is_taken = is_free.load(); }
  bool step() override {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_TRUE(is_taken);
    worked.insert(std::this_thread::get_id());
    const bool any = !asked.empty();
    for (auto& answer : asked) answers.push_back(std::move(answer));
    asked.clear();
    return any;
  }
  int readable() const override { return event_.get(); }
  void give_back() override { is_taken = false; }
  /// As its own thread would do it.
  void rouse() override {
    const std::lock_guard<std::mutex> lock(mutex);
    ++roused;
    for (auto& answer : asked) answers.push_back(std::move(answer));
    asked.clear();
  }

  std::mutex mutex;
  std::deque<std::vector<uint8_t>> asked, answers;
  std::set<std::thread::id> worked;
  int roused = 0;
  std::atomic<bool> is_free{true}, is_taken{false};

 private:
  const Fd event_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

std::shared_ptr<Shard> shard_of_one(std::unique_ptr<Transport> link) {
  EngineOptions options;
  options.session.workers = 1;
  return std::make_shared<Shard>(0, options, std::move(link), monotonic_now(), [](const Status&) {});
}

/// Where it ends.
std::future<std::thread::id> sum(Shard& shard, std::vector<int32_t>& tensor) {
  auto end = std::make_shared<std::promise<std::thread::id>>();
  Collective all = testing::in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  all.done = [end](const Status& status) {
    EXPECT_TRUE(status.ok()) << status.to_string();
    end->set_value(std::this_thread::get_id());
  };
  shard.submit(std::make_shared<SharedCollective>(all, 1), {0, tensor.size()});
  return end->get_future();
}

std::unique_ptr<CallerTurn> turn_of(ShardThread& thread) {
  std::unique_ptr<CallerTurn> turn = thread.begin_turn();  // Not before the thread sleeps where it can be replaced.
  for (const Time end = monotonic_now() + kPatience; !turn && monotonic_now() < end; turn = thread.begin_turn()) {
    std::this_thread::yield();
  }
  return turn;
}

TEST(ShardThread, ACallerDoesAllOfItsCallAndTheSideWorkToo) {
  OwnAggregator aggregator;
  const auto shard = shard_of_one(std::make_unique<OwnAggregator::Link>(aggregator));
  ShardThread thread({shard}, Duration(0), {}, &aggregator);
  for (int call = 0; call < 20; ++call) {
    const std::unique_ptr<CallerTurn> turn = turn_of(thread);
    ASSERT_NE(turn, nullptr);
    EXPECT_TRUE(aggregator.is_taken);
    std::vector<int32_t> tensor(1000, 3);
    auto end = sum(*shard, tensor);
    const auto over = [&end] { return end.wait_for(Duration(0)) == std::future_status::ready; };
    while (!over()) turn->work_until(over);
    EXPECT_EQ(end.get(), std::this_thread::get_id());
  }
  EXPECT_FALSE(aggregator.is_taken);
  EXPECT_EQ(aggregator.worked, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(aggregator.roused, 0);
}

TEST(ShardThread, WithoutATurnItHasTheSideWorkDone) {
  OwnAggregator aggregator;
  const auto shard = shard_of_one(std::make_unique<OwnAggregator::Link>(aggregator));
  ShardThread thread({shard}, Duration(0), {}, &aggregator);
  turn_of(thread).reset();
  std::vector<int32_t> tensor(1000, 3);
  auto end = sum(*shard, tensor);
  ASSERT_EQ(end.wait_for(kPatience), std::future_status::ready);
  EXPECT_NE(end.get(), std::this_thread::get_id());
  const std::lock_guard<std::mutex> lock(aggregator.mutex);
  EXPECT_TRUE(aggregator.worked.empty());
  EXPECT_GT(aggregator.roused, 0);
}

// Its own thread is at it, and will not be long.
TEST(ShardThread, ATurnGoesOnWithoutTheSideWork) {
  OwnAggregator aggregator;
  aggregator.is_free = false;
  const auto shard = shard_of_one(std::make_unique<OwnAggregator::Link>(aggregator));
  ShardThread thread({shard}, Duration(0), {}, &aggregator);
  const std::unique_ptr<CallerTurn> turn = turn_of(thread);
  ASSERT_NE(turn, nullptr);
  std::vector<int32_t> tensor(1000, 3);
  auto end = sum(*shard, tensor);
  std::thread other([&aggregator, &end] {
    while (end.wait_for(milliseconds(1)) != std::future_status::ready) aggregator.rouse();
  });
  const auto over = [&end] { return end.wait_for(Duration(0)) == std::future_status::ready; };
  while (!over()) turn->work_until(over);
  other.join();
  EXPECT_EQ(end.get(), std::this_thread::get_id());
  EXPECT_TRUE(aggregator.worked.empty());
}

TEST(ShardThread, NoCallerHasTheTurnWhereNothingTellsOfFrames) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  ShardThread thread({make_shard(notes)});
  EXPECT_EQ(thread.begin_turn(), nullptr);
}

// ---- several shards ----

TEST(ShardThread, ASubmissionToAnyOfItsShardsWakesIt) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  const auto shards = shards_of_one_link(notes, std::vector<Duration>(3, seconds(10000)));
  ShardThread thread(shards);
  for (size_t i = 0; i < shards.size(); ++i) {
    ASSERT_TRUE(notes->until([&] { return notes->timeouts.size() > i; })) << "it sleeps";
    shards[i]->submit(a_barrier({}), {});
    ASSERT_TRUE(notes->until([&] { return notes->sent.size() > i; })) << i;
  }
  EXPECT_FALSE(notes->gave_up);
}

TEST(ShardThread, SleepsNoLongerThanTheNextTimerOfAnyShard) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  notes->obey_timeouts = true;
  ShardThread thread(shards_of_one_link(notes, {seconds(10000), milliseconds(400), seconds(10000)}));
  ASSERT_TRUE(notes->until([&] { return notes->sent.size() >= 3; }));
  const std::lock_guard<std::mutex> lock(notes->mutex);
  for (const Duration timeout : notes->timeouts) EXPECT_LE(timeout, milliseconds(100));
  EXPECT_LT(notes->timeouts.size(), 100U) << "it does not spin";
}

TEST(ShardThread, StopTakesTheLastStepOfEveryShard) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  const auto shards = shards_of_one_link(notes, std::vector<Duration>(3, seconds(10000)));
  ShardThread thread(shards);
  std::vector<std::string> told;
  for (const auto& shard : shards) {
    shard->submit(a_barrier([&](const Status& status) { told.push_back(status.message()); }), {});
    shard->request_failure(Status(Code::kAborted, "shut down"));
  }
  thread.stop();
  EXPECT_EQ(told, std::vector<std::string>(3, "shut down"));
  EXPECT_FALSE(notes->gave_up);
}

// Those of many chunks must not keep the others from the switch that they wait for.
TEST(ShardThread, OfSeveralShardsNoneLetsResultsGather) {
  std::atomic<int> pauses{0};
  const auto notes = std::make_shared<WakeTransport::Notes>();
  EngineOptions options;
  options.session.workers = 1;
  options.session.slots = kLeastSlotsForBulk;
  options.session.payload_bytes = 1024;
  const auto busy =
      std::make_shared<Shard>(0, options, std::make_unique<SlowLink>(&pauses), monotonic_now(), [](const Status&) {});
  ShardThread thread({busy, make_shard(notes)});
  std::vector<int32_t> tensor(500 * 256, 3);
  std::promise<Status> end;
  Collective all = testing::in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  all.done = [&](const Status& status) { end.set_value(status); };
  busy->submit(std::make_shared<SharedCollective>(all, 1), {0, tensor.size()});
  auto ended = end.get_future();
  ASSERT_EQ(ended.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(ended.get().ok());
  EXPECT_EQ(pauses.load(), 0);
}

TEST(ShardThread, RunsWhereItIsPlaced) {
  const std::vector<int> before = allowed_processors();
  for (const int processor : {before.back(), kMaxProcessors - 1}) {  // the second does not exist: nothing changes
    const auto notes = std::make_shared<WakeTransport::Notes>();
    std::vector<int> found;
    bool done = false;
    const std::shared_ptr<Shard> shard = make_shard(notes);
    ShardThread thread({shard}, Duration(0), {processor});
    shard->post([&](Time) {
      const std::lock_guard<std::mutex> lock(notes->mutex);
      found = allowed_processors();
      done = true;
      notes->changed.notify_all();
    });
    ASSERT_TRUE(notes->until([&] { return done; }));
    EXPECT_EQ(found, processor == before.back() ? std::vector<int>{processor} : before);
  }
  EXPECT_EQ(allowed_processors(), before);
}

TEST(ShardThread, SleepsAtMostASecondWithoutAnyTimer) {
  const auto notes = std::make_shared<WakeTransport::Notes>();
  const std::shared_ptr<Shard> shard = make_shard(notes);
  ShardThread thread({shard});
  ASSERT_TRUE(notes->until([&] { return !notes->timeouts.empty(); }));
  const std::lock_guard<std::mutex> lock(notes->mutex);
  EXPECT_EQ(notes->timeouts[0], seconds(1));
}

}  // namespace
}  // namespace switchml
