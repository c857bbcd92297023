#include "engine/task_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace switchml {
namespace {

class OpenTask final : public Task {
 public:
  OpenTask(uint64_t number, Collective call)
      : Task(number, std::make_shared<SharedCollective>(std::move(call), 1), 1, SessionParameters()) {
    announced = true;
    in_flight = 1;
  }

 private:
  bool all_opened() const override { return true; }
};

class TaskQueueTest : public ::testing::Test {
 protected:
  Task* add(const char* title, Time deadline = kNever, ReduceOp op = ReduceOp::kSum) {
    Collective c;
    c.title = title;
    c.op = op;
    c.deadline = deadline;
    c.done = [this, title](const Status& status) {
      told_.push_back(title + std::string(status.ok() ? "" : " failed"));
    };
    const uint64_t serial = queue_.next_serial();
    queue_.add(std::make_unique<OpenTask>(serial, c));
    return queue_.at(serial);
  }
  void answer(Task* task) {
    task->in_flight = 0;
    queue_.on_progress(*task);
  }

  TaskQueue queue_;
  std::vector<std::string> told_;
};

TEST_F(TaskQueueTest, ACollectiveCompletesWhateverIsBeforeItButABarrierDoesNot) {
  Task* const first = add("first");
  Task* const barrier = add("barrier", kNever, ReduceOp::kBarrier);
  Task* const last = add("last");
  EXPECT_EQ(queue_.short_under_way(), 3U);
  answer(barrier);
  EXPECT_TRUE(told_.empty());
  answer(last);
  EXPECT_EQ(told_, (std::vector<std::string>{"last"}));
  EXPECT_EQ(queue_.oldest_unfinished(), first);
  answer(first);
  EXPECT_EQ(told_, (std::vector<std::string>{"last", "first", "barrier"}));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.first_serial(), 3U);
  EXPECT_EQ(queue_.at(1), nullptr);
  EXPECT_EQ(queue_.short_under_way(), 0U);
}

TEST_F(TaskQueueTest, NamesATaskWhoseDeadlineHasPassed) {
  EXPECT_EQ(queue_.deadline(), kNever);
  const Time begin{};
  Task* const late = add("late", begin + seconds(9));
  Task* const early = add("early", begin + seconds(3));
  EXPECT_EQ(queue_.deadline(), begin + seconds(3));
  EXPECT_EQ(queue_.overdue(begin + seconds(2)), nullptr);
  EXPECT_EQ(queue_.overdue(begin + seconds(3)), early);
  answer(early);
  EXPECT_EQ(queue_.overdue(begin + seconds(4)), nullptr) << "its caller has been told";
  EXPECT_EQ(queue_.deadline(), begin + seconds(9));
  EXPECT_EQ(queue_.overdue(begin + seconds(9)), late);
}

TEST_F(TaskQueueTest, AFailureTellsEachCallerOnce) {
  add("first");
  answer(add("second"));
  add("third");
  queue_.fail(Status(Code::kAborted, "over"));
  EXPECT_EQ(told_, (std::vector<std::string>{"second", "first failed", "third failed"}));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.at(0), nullptr);
}

}  // namespace
}  // namespace switchml
