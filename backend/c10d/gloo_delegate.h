// Gloo: a Gloo group on the same store, for what a switch cannot do. Made when it is first needed where Gloo
// connects lazily, so that two ranks may use it while the others never do; else by the factory, on all ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "c10d/group_core.h"
#include "c10d/work.h"

namespace switchml {

/// Thread-safe.
class GlooDelegate {
 public:
  /// Makes the group. Called at most once, on the thread of the first call that needs it, without the GIL and without a
  /// lock.
  using Factory = std::function<c10::intrusive_ptr<compat::Base>()>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  /// Hands a call to the group; returns the group's works. What it throws fails the call as it is.
  using Issue = std::function<std::vector<WorkPtr>(compat::Base& group)>;

  GlooDelegate(std::shared_ptr<GroupCore> core, Factory factory)
      : core_(std::move(core)), factory_(std::move(factory)) {}

  /// The group. Throws what the factory throws, or that the process group was shut down. A factory that failed is tried
  /// again by the next call.
  c10::intrusive_ptr<compat::Base> get();
  /// Null before the first get().
  c10::intrusive_ptr<compat::Base> existing() const;

  /// A collective that waits until `precheck` is complete, so that nothing is moved before all ranks agree on what:
  /// Gloo ends the process where sizes differ. Then it is issued, in the order of start() and on a completion thread,
  /// and when its works are complete `finish` (may be null) runs. It fails with the error of the precheck, of `issue`,
  /// or of the first work that fails, with the call's context; waits for it end `timeout` (0: never) after it was
  /// issued. Without a precheck it is issued at once, and start() throws what `issue` does. The work's future has
  /// `outputs`; a profile shows the call by its own name, with `inputs`, and not what the group makes of it.
  WorkPtr start(const CallRecord& record, c10d::OpType type, const WorkPtr& precheck, std::chrono::milliseconds timeout,
                Issue issue, const std::vector<at::Tensor>& inputs, std::vector<std::vector<at::Tensor>> outputs,
                std::function<void()> finish);

  /// Fails what was started and is not complete. What Gloo has in hand goes on by itself.
  void abort(const Status& reason);

  /// Forgets the group. Its destructor waits for its operations: if that takes longer than `limit` (a peer that will
  /// never come, after a failure), a thread of its own goes on waiting.
  void release(std::chrono::milliseconds limit);

 private:
  class Operation;
  /// Calls that wait for their prechecks, in order; shared with the prechecks' callbacks.
  struct Queue {
    std::mutex mutex;
    std::deque<std::shared_ptr<Operation>> waiting;
    bool draining = false;
    std::vector<std::weak_ptr<Operation>> started;  // all that may be incomplete, for abort()
  };
  static void drain(Queue& queue);
  void remember(const std::shared_ptr<Operation>& operation);

  const std::shared_ptr<GroupCore> core_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  mutable std::mutex mutex_;
  std::condition_variable made_;
  bool making_ = false;
  Factory factory_;
  c10::intrusive_ptr<compat::Base> group_;
};

}  // namespace switchml
