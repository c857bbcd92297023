// The collectives that a shard works on, in the order in which they were called. Reads no clock; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "format/task.h"

namespace switchml {

class TaskQueue {
 public:
  /// The serial number of the task that is added next.
  uint64_t next_serial() const { return first_serial_ + tasks_.size(); }
  uint64_t first_serial() const { return first_serial_; }
  /// Precondition: its serial number is next_serial().
  void add(std::unique_ptr<Task> task);
  /// The task of this number; null: it is done, or not there yet.
  Task* at(uint64_t serial);
  bool empty() const { return tasks_.empty(); }

  /// Tells the caller of this task, and of those that waited for it, if it is complete. It may be destroyed then.
  void on_progress(Task& task);
  /// Tells the callers of all tasks, and forgets these.
  void fail(const Status& status);

  /// The first unfinished task; null: none.
  Task* oldest_unfinished();
  /// An overdue task; null: none.
  Task* overdue(Time now);
  /// Not after the deadline of any task; kNever: there is no task.
  Time deadline() const { return tasks_.empty() ? kNever : earliest_deadline_; }
  /// Collectives of the short stream that lack chunks or results.
  size_t short_under_way() const { return short_under_way_; }

 private:
  std::deque<std::unique_ptr<Task>> tasks_;
  uint64_t first_serial_ = 0;  // The serial number of tasks_.front().
  size_t short_under_way_ = 0;
  Time earliest_deadline_ = kNever;
};

}  // namespace switchml
