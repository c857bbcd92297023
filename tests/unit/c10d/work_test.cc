#include "c10d/work.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/interruption.h"
#include "fixture.h"

namespace switchml {
namespace {

using WorkRef = c10::intrusive_ptr<SwitchWork>;

WorkRef new_work(OutputLists outputs = {}) {
  return c10::make_intrusive<SwitchWork>(1, c10d::OpType::ALLREDUCE, CallRecord("switchml all_reduce here", 7),
                                         std::move(outputs));
}

/// One of a call of that group, timed where its calls are.
WorkRef new_work(const std::shared_ptr<GroupCore>& core) {
  CallRecord record(core, Call::kAllReduce, Way::kMemory);
  record.begin();
  return c10::make_intrusive<SwitchWork>(0, c10d::OpType::ALLREDUCE, std::move(record));
}
std::shared_ptr<GroupCore> timed_core() {
  auto core = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  core->time_calls();
  return core;
}

std::exception_ptr some_error() { return std::make_exception_ptr(std::runtime_error("the cable is cut")); }

TEST(ThrowStatus, CarriesContextCodeAndMessage) {
  for (const Code code : {Code::kInvalidArgument, Code::kUnsupported, Code::kTimeout, Code::kUnavailable,
                          Code::kMismatch, Code::kAborted, Code::kInternal}) {
    const Status status(code, "some reason");
    const std::string text = thrown_by([&] { throw_status(status, "switchml barrier"); });
    EXPECT_TRUE(contains(text, "switchml barrier: " + status.to_string()));
  }
}

TEST(ThrowStatus, MakesAValueErrorOfABadArgumentOnly) {
  EXPECT_TRUE(contains(value_error_of([] { throw_status({Code::kInvalidArgument, "x"}, "c"); }), "c: "));
  EXPECT_TRUE(contains(value_error_of([] { throw_status({Code::kTimeout, "x"}, "c"); }), "not a ValueError"));
  EXPECT_TRUE(contains(value_error_of([] { throw_status({Code::kUnavailable, "x"}, "c"); }), "not a ValueError"));
  EXPECT_TRUE(contains(value_error_of([] { throw_status({Code::kMismatch, "x"}, "c"); }), "not a ValueError"));
}

TEST(StatusException, IsWhatThrowStatusThrows) {
  const std::exception_ptr error = status_exception({Code::kInvalidArgument, "too long"}, "switchml send");
  ASSERT_TRUE(error);
  EXPECT_TRUE(contains(value_error_of([&] { std::rethrow_exception(error); }), "switchml send: "));
}

TEST(SwitchWork, IsOpenUntilItSucceeds) {
  const at::Tensor tensor = counting(3);
  const WorkRef work = new_work({{tensor}});
  EXPECT_FALSE(work->isCompleted());
  EXPECT_FALSE(work->getFuture()->completed());
  EXPECT_EQ(work->getSequencenumber(), 7U);
  EXPECT_EQ(work->context(), "switchml all_reduce here");
  EXPECT_EQ(work->retrieveOpType(), c10d::OpType::ALLREDUCE);

  work->succeed();
  EXPECT_TRUE(work->isCompleted());
  EXPECT_TRUE(work->isSuccess());
  EXPECT_TRUE(work->wait());
  ASSERT_EQ(work->result().size(), 1U);
  EXPECT_EQ(work->result()[0].data_ptr(), tensor.data_ptr());
}

TEST(SwitchWork, GivesItsOutputsAsTheFuturesValue) {
  const at::Tensor tensor = counting(3);
  const WorkRef work = new_work({{tensor, tensor}});
  work->succeed();
  const std::vector<at::Tensor> value = work->getFuture()->value().toTensorVector();
  ASSERT_EQ(value.size(), 2U);
  EXPECT_EQ(value[1].data_ptr(), tensor.data_ptr());
}

TEST(SwitchWork, GivesSeveralListsOfOutputsByItsFutureOnly) {
  const WorkRef work = new_work({{counting(1), counting(2)}, {counting(3)}});
  work->succeed();
  const c10::List<c10::IValue> value = work->getFuture()->value().toList();
  ASSERT_EQ(value.size(), 2U);
  EXPECT_EQ(value.get(0).toTensorVector().at(1).numel(), 2);
  EXPECT_EQ(value.get(1).toTensorVector().at(0).numel(), 3);
  EXPECT_TRUE(contains(refusal_of([&] { work->result(); }), "work result does not support list of lists"));
}

TEST(SwitchWork, HasNoResultBeforeItsEnd) {
  const WorkRef work = new_work({{counting(1)}});
  EXPECT_TRUE(contains(thrown_by([&] { work->result(); }),
                       "switchml all_reduce here: result() before the work is completed; call wait() first"));
  work->succeed();
}

TEST(SwitchWork, ThrowsWhatItFailedWith) {
  const WorkRef work = new_work();
  work->fail(some_error());
  EXPECT_TRUE(work->isCompleted());
  EXPECT_FALSE(work->isSuccess());
  for (int again = 0; again < 2; ++again) EXPECT_EQ(thrown_by([&] { work->wait(); }), "the cable is cut");
  EXPECT_TRUE(work->getFuture()->hasError());
  EXPECT_EQ(thrown_by([&] { work->getFuture()->waitAndThrow(); }), "the cable is cut");
  EXPECT_EQ(thrown_by([&] { std::rethrow_exception(work->exception()); }), "the cable is cut");
}

TEST(SwitchWork, GoesOnAfterAWaitThatGaveUp) {
  const WorkRef work = new_work();
  const Time start = monotonic_now();
  const std::string text = thrown_by([&] { work->wait(milliseconds(30)); });
  EXPECT_GE(monotonic_now() - start, milliseconds(30));
  EXPECT_TRUE(contains(text, "switchml all_reduce here: Operation timed out! wait() gave up after 30 ms"));
  EXPECT_FALSE(work->isCompleted());
  work->succeed();
  EXPECT_TRUE(work->wait(milliseconds(30)));
}

TEST(SwitchWork, WakesEveryWaiter) {
  const WorkRef work = new_work();
  std::atomic<int> awake{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      work->wait();
      ++awake;
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(awake.load(), 0);
  work->succeed();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(awake.load(), 4);
}

TEST(SwitchWork, MayBeWaitedForInACallbackOfItsFuture) {
  const WorkRef work = new_work();
  std::atomic<int> runs{0};
  work->getFuture()->addCallback([&](c10::ivalue::Future&) {
    // Of the work itself the callback may know that it is over; the future is set by the thread that runs this.
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(work->wait());
    ++runs;
  });
  std::thread([&] { work->succeed(); }).join();
  EXPECT_EQ(runs.load(), 1);
}

TEST(SwitchWork, SaysThatItHasSucceededOnceThatCanBeSeen) {
  const auto core = timed_core();
  WorkRef work = new_work(core);
  std::vector<std::optional<float>> heard;
  core->completion_hooks().add(1, [&](uint64_t key, std::optional<float> duration_ms) {
    EXPECT_TRUE(work->isCompleted());
    EXPECT_EQ(key, compat::completion_key(*work));
    heard.push_back(duration_ms);
  });
  work->succeed();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_GE(heard[0].value_or(-1), 0);
  new_work(core)->fail(some_error());
  EXPECT_EQ(heard.size(), 1U);
}

TEST(SwitchWork, LetsGoOfItsTensorsUnderAWeakReference) {
  const at::Tensor tensor = counting(3);
  WorkRef work = new_work({{tensor}});
  work->succeed();
  const c10::weak_intrusive_ptr<SwitchWork> weak(work);
  EXPECT_GT(tensor.use_count(), 1U);
  work.reset();
  EXPECT_EQ(tensor.use_count(), 1U);
  EXPECT_TRUE(weak.expired());
}

/// What a wait in a forked child throws.
std::string wait_in_child(SwitchWork& work) {
  fork_generation();  // from now on children are counted
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = thrown_by([&] { work.wait(); });
    const bool whole = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(whole ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text(4096, ' ');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size()))));
  ::close(ends[0]);
  int state = 0;
  ::waitpid(child, &state, 0);
  return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? text : "the child did not end by itself";
}

TEST(SwitchWork, CompletesForNobodyInAForkedChild) {
  const WorkRef work = new_work();
  EXPECT_TRUE(contains(wait_in_child(*work), "switchml all_reduce here: this process was forked"));
  work->succeed();
  EXPECT_TRUE(work->isCompleted());
  EXPECT_EQ(wait_in_child(*work), "") << "it was seen to be complete before";
}

TEST(SwitchWork, TellsHowLongItTookIfItWasMeasured) {
  const WorkRef unmeasured = new_work();
  unmeasured->succeed();
  EXPECT_TRUE(contains(thrown_by([&] { unmeasured->getDuration(); }), "enableCollectivesTiming() was not called"));
  for (const bool good : {true, false}) {
    const WorkRef work = new_work(timed_core());
    EXPECT_TRUE(contains(thrown_by([&] { work->getDuration(); }), "before the work is completed"));
    std::this_thread::sleep_for(milliseconds(20));
    good ? work->succeed() : work->fail(some_error());
    const float taken = work->getDuration();
    EXPECT_GT(taken, 19.F);
    EXPECT_EQ(work->getDuration(), taken);
  }
}

TEST(SwitchWork, LetsSignalsInWhileItWaits) {
  for (const milliseconds limit : {milliseconds(0), milliseconds(60000)}) {
    const auto core = timed_core();
    const WorkRef work = new_work(core);
    static int asked;
    asked = 0;
    set_interruption_check([] {
      if (++asked == 2) throw std::runtime_error("Ctrl-C");
    });
    EXPECT_EQ(thrown_by([&] { work->wait(limit); }), "Ctrl-C");
    set_interruption_check(nullptr);
    EXPECT_FALSE(work->isCompleted());
  }
}

TEST(OpenCall, EndsOnceItsResultIsThereAndItsTensorsAreGone) {
  const auto core = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  for (const bool good : {true, false}) {
    OpenCall call(core, CallRecord(core, Call::kAllReduce, Way::kMemory), c10d::OpType::ALLREDUCE, {}, {}, {});
    const WorkRef work = call.work();
    EXPECT_FALSE(core->wait_until_landed(milliseconds(0)));
    call.post([&] {
      call.complete([&] {
        EXPECT_FALSE(work->isCompleted());
        if (!good) std::rethrow_exception(some_error());
      });
    });
    EXPECT_EQ(thrown_by([&] { work->wait(); }), good ? "" : "the cable is cut");
    EXPECT_TRUE(core->wait_until_landed(seconds(60)));
    core->pool().join();
  }
}

TEST(OpenCall, ThatIsDroppedHasEndedToo) {
  const auto core = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  { const OpenCall call(core, CallRecord("dropped"), c10d::OpType::ALLREDUCE, {}, {}, {}); }
  EXPECT_TRUE(core->wait_until_landed(milliseconds(0)));
}

}  // namespace
}  // namespace switchml
