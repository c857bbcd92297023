// Calls that are waited for as one. Each is issued when it is made; what is put together are their works.
#pragma once

#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "c10d/compat.h"

namespace switchml {

/// All of several works. An error is that of the first call that has one, after all have ended.
class CoalescedWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  CoalescedWork(int rank, std::vector<WorkPtr> works);

  bool isCompleted() override;
  /// A positive `timeout` is for all together.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  void abort() override;
  /// Its value are all tensors of the works' futures. Throws where a work has none: messages.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<WorkPtr> works_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // Null until it is asked for.
};

/// What a thread of a group has issued since it began. Thread-safe: calls of other threads are not its.
class Coalescing {
 public:
  using WorkPtr = CoalescedWork::WorkPtr;

  /// Drops what this thread has begun and not ended. Throws RuntimeError where another thread has begun.
  void begin();
  /// A call of this thread; nothing where it has not begun.
  void add(const WorkPtr& work);
  /// All since begin(). Throws RuntimeError where this thread has not begun.
  WorkPtr end(int rank);

 private:
  std::mutex mutex_;
  std::optional<std::thread::id> owner_;
  std::vector<WorkPtr> works_;
};

}  // namespace switchml
