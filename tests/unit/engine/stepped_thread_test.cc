#include "engine/stepped_thread.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>

#include "arithmetic.h"

namespace switchml {
namespace {

constexpr auto kBound = std::chrono::seconds(60);

/// Does what it is given, one piece in each step; between steps it sleeps until it is given more.
class PieceWorker final : public SteppedThread {
 public:
  PieceWorker() { start(); }
  ~PieceWorker() override { stop(); }

  void give(std::function<void()> piece) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      pieces_.push_back(std::move(piece));
      given_.notify_all();
    }
    notify();
  }
  /// Where and with which arithmetic it is done.
  std::future<std::pair<std::thread::id, int>> give() {
    auto done = std::make_shared<std::promise<std::pair<std::thread::id, int>>>();
    give([done] { done->set_value({std::this_thread::get_id(), testing::Arithmetic().rounding}); });
    return done->get_future();
  }
  /// A turn, once the thread has let go of what it has done.
  std::unique_ptr<CallerTurn> turn() {
    std::unique_ptr<CallerTurn> turn = begin_turn();
    for (const Time end = monotonic_now() + kBound; !turn && monotonic_now() < end; turn = begin_turn()) {
      std::this_thread::yield();
    }
    return turn;
  }

  std::atomic<bool> lets_callers{true};
  std::atomic<bool> works_for_caller{false};

 private:
  void settle_in() const override {}
  bool lets_callers_work() override { return lets_callers; }
  void begin_work_of_caller() override { works_for_caller = true; }
  void end_work_of_caller() override { works_for_caller = false; }
  bool is_idle() const override { return !has_work(); }
  bool has_work() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !pieces_.empty();
  }
  bool step(Time /*now*/) override {
    std::function<void()> piece;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (pieces_.empty()) return false;
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    piece();
    return true;
  }
  void step_or_wait(Time now, bool, const std::function<bool()>& over) override {
    if (step(now) || over()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    given_.wait_for(lock, milliseconds(10), [this] { return !pieces_.empty(); });
  }
  void end_wait() override { given_.notify_all(); }

  mutable std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::function<void()>> pieces_;
};

template <typename T>
bool is_ready(const std::future<T>& future) {
  return future.wait_for(Duration(0)) == std::future_status::ready;
}

TEST(SteppedThread, WorksByItselfWhileThereIsNoTurn) {
  PieceWorker worker;
  for (int i = 0; i < 20; ++i) {
    auto done = worker.give();
    ASSERT_EQ(done.wait_for(kBound), std::future_status::ready);
    EXPECT_NE(done.get().first, std::this_thread::get_id());
  }
}

TEST(SteppedThread, InATurnTheCallerDoesAllOfIt) {
  PieceWorker worker;
  const testing::StrangeArithmetic strange;
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<CallerTurn> turn = worker.turn();
    ASSERT_NE(turn, nullptr);
    EXPECT_TRUE(worker.works_for_caller);
    EXPECT_EQ(worker.begin_turn(), nullptr) << "another one is at it";
    auto own = worker.give();
    auto of_another = std::async(std::launch::async, [&worker] { return worker.give().get(); });
    while (!is_ready(own) || !is_ready(of_another)) {
      turn->work_until([&] { return is_ready(own) && is_ready(of_another); });
    }
    for (const auto& [where, rounding] : {own.get(), of_another.get()}) {
      EXPECT_EQ(where, std::this_thread::get_id());
      EXPECT_EQ(rounding, FE_TONEAREST);
    }
  }
  EXPECT_FALSE(worker.works_for_caller);
}

TEST(SteppedThread, TheThreadDoesWhatATurnLeaves) {
  PieceWorker worker;
  std::unique_ptr<CallerTurn> turn = worker.turn();
  ASSERT_NE(turn, nullptr);
  auto left = worker.give();
  turn.reset();
  ASSERT_EQ(left.wait_for(kBound), std::future_status::ready);
  EXPECT_NE(left.get().first, std::this_thread::get_id());
}

TEST(SteppedThread, NoTurnBeginsAmidWorkOrWhereNoneIsAllowed) {
  PieceWorker worker;
  worker.lets_callers = false;
  EXPECT_EQ(worker.begin_turn(), nullptr);
  worker.lets_callers = true;
  std::promise<void> begun, end;
  worker.give([&] {
    begun.set_value();
    end.get_future().wait();
  });
  ASSERT_EQ(begun.get_future().wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(worker.begin_turn(), nullptr);
  end.set_value();
  EXPECT_NE(worker.turn(), nullptr);
}

TEST(SteppedThread, StopTakesTheLastStep) {
  for (int i = 0; i < 50; ++i) {
    std::future<std::pair<std::thread::id, int>> last;
    {
      PieceWorker worker;
      last = worker.give();
    }
    ASSERT_TRUE(is_ready(last)) << i;
  }
}

}  // namespace
}  // namespace switchml
