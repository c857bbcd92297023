#include "engine/task_queue.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace switchml {

void TaskQueue::add(std::unique_ptr<Task> task) {
  SWITCHML_ASSERT(task->serial == next_serial());
  earliest_deadline_ = std::min(earliest_deadline_, task->collective().deadline);
  if (!task->is_bulk()) ++short_under_way_;
  tasks_.push_back(std::move(task));
}

Task* TaskQueue::at(uint64_t serial) {
  return serial < first_serial_ || serial >= next_serial() ? nullptr : tasks_[serial - first_serial_].get();
}

// A barrier completes after everything before it, unless the caller keeps the order of the streams' parts; all others
// as soon as they can.
void TaskQueue::on_progress(Task& task) {
  if (task.finished || !task.complete()) return;
  if (!std::exchange(task.was_complete, true) && !task.is_bulk()) --short_under_way_;
  if (task.collective().op != ReduceOp::kBarrier || task.collective().stream != StreamChoice::kByLength) {
    task.finished = true;
    task.shared->finish(Status());
  }
  while (!tasks_.empty()) {
    Task& front = *tasks_.front();
    if (!front.finished) {
      if (!front.complete()) break;
      front.shared->finish(Status());
    }
    tasks_.pop_front();
    ++first_serial_;
  }
  if (tasks_.empty()) earliest_deadline_ = kNever;
}

void TaskQueue::fail(const Status& status) {
  for (auto& task : tasks_) {
    if (!task->finished) task->shared->finish(status);
  }
  first_serial_ = next_serial();
  tasks_.clear();
  short_under_way_ = 0;
}

Task* TaskQueue::oldest_unfinished() {
  const auto waits = std::find_if(tasks_.begin(), tasks_.end(), [](const auto& task) { return !task->finished; });
  return waits == tasks_.end() ? nullptr : waits->get();
}

Task* TaskQueue::overdue(Time now) {
  if (now < deadline()) return nullptr;
  earliest_deadline_ = kNever;
  for (const auto& task : tasks_) {
    if (task->finished) continue;
    if (now >= task->collective().deadline) return task.get();
    earliest_deadline_ = std::min(earliest_deadline_, task->collective().deadline);
  }
  return nullptr;
}

}  // namespace switchml
