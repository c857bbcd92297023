// What a collective returns: completes together with its future. The value is the list of result tensors, or a list of
// such lists.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "c10d/call_record.h"
#include "c10d/compat.h"
#include "c10d/group_core.h"
#include "socket/close_on_fork.h"

namespace switchml {

/// The exception that a failed collective or a failed start raises: an invalid argument -> ValueError, others ->
/// DistBackendError, as NCCL's (before 2.0 RuntimeError, and TimeoutError after a timeout).
[[noreturn]] void throw_status(const Status& status, const std::string& context);
std::exception_ptr status_exception(const Status& status, const std::string& context);
/// What an exception says, without c10's backtrace; nullopt: it is no std::exception.
std::optional<std::string> exception_text(const std::exception_ptr& error);

class SwitchWork final : public c10d::Work {
 public:
  /// The call begins now, and the work tells its record how it ends. A profile, where one is made, shows `inputs`. Of
  /// several lists of outputs the future's value is the lists, as with Gloo.
  SwitchWork(int rank, c10d::OpType type, CallRecord record, OutputLists outputs = {},
             at::ArrayRef<at::Tensor> inputs = {}, bool is_profiled = at::hasCallbacks());

  bool isCompleted() override;
  /// Waits for completion and throws its error. A positive `timeout` that passes first throws and leaves the collective
  /// running; without one the collective's own deadline ends the wait. Throws in a forked child of the process that
  /// made the call, unless that was seen to be complete before.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  /// The only list of outputs; throws RuntimeError where there are several.
  std::vector<at::Tensor> result() override;
  /// Made when it is first asked for, since most calls are over without; on devices at once.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const SWITCHML_LATER_OVERRIDE { return record_.sequence(); }
  /// Milliseconds from the beginning to completion. Throws RuntimeError where calls were not timed, or it is not over.
  float getDuration() const SWITCHML_LATER_OVERRIDE;

  /// Exactly one call of these, on any thread. Runs the future's callbacks.
  void succeed();
  void fail(const std::exception_ptr& error);
  /// fail(), or succeed() where there is no error; what a callback throws is logged.
  /// Gives up the reference.
  static void complete(c10::intrusive_ptr<SwitchWork> work, const std::exception_ptr& error);
  /// From now on a wait() stays up to a second longer while a thread of the pool completes a work: the last reference
  /// to a tensor of Python takes an interpreter, which such a thread may have no more.
  static void outlive_interpreter();

  /// What the thread of a wait() does first, until `end` at most: it may complete the work. Set before anybody waits.
  void let_waiter_work(std::function<void(Time end)> work) { waiters_work_ = std::move(work); }

  /// wait() blocks the host until results are on the device, or the group ends.
  void block_host(EndedFor ended_for) { blocks_host_ = std::move(ended_for); }

  /// The sender of a message. Before succeed().
  void set_source(int rank) { source_ = rank; }
  int sourceRank() const override { return source_ < 0 ? c10d::Work::sourceRank() : source_; }

  const CallRecord& record() const { return record_; }
  std::string context() const { return record_.context(); }
  /// A weak reference (a barrier keeps some) holds the object's memory, and would hold its members too.
  void release_resources() override;

 private:
  /// Null before the first getFuture().
  c10::intrusive_ptr<c10::ivalue::Future> made_future() const;
  void set(c10::ivalue::Future& future) const;
  void end(const std::exception_ptr& error);
  std::optional<float> time_taken() const;
  void wait_until_completed(std::chrono::milliseconds timeout);
  static void await_completions();
  [[noreturn]] void throw_late(std::chrono::milliseconds timeout) const;

  const CallRecord record_;
  const unsigned born_in_ = fork_generation();
  std::atomic<float> milliseconds_taken_{-1};
  std::atomic<bool> over_{false};  // Seen to be complete, the future too.
  std::function<void(Time end)> waiters_work_;
  int source_ = -1;
  EndedFor blocks_host_;                    // Null: it does not.
  const std::vector<c10::Device> devices_;  // Where results are not there before streams have come so far.
  OutputLists outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // Guarded by the base class's lock.
};

/// This backend completes the work of such a call, on the thread that has made it or on one of the group's pool. The
/// group does not end before the call has.
class OpenCall {
 public:
  /// The call begins. `timeout`: as for CallRecord::log().
  OpenCall(std::shared_ptr<GroupCore> core, CallRecord record, c10d::OpType type, at::ArrayRef<at::Tensor> inputs,
           OutputLists outputs, std::chrono::milliseconds timeout);
  /// One that was never completed has ended too.
  ~OpenCall();
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  const std::shared_ptr<GroupCore>& core() const { return core_; }
  /// Before complete().
  const c10::intrusive_ptr<SwitchWork>& work() const { return work_; }
  const CallRecord& record() const { return work_->record(); }

  /// From now on another thread may complete it, with the state of this one (autograd's modes, say). The first time
  /// counts.
  void leave_thread() {
    if (!thread_state_) thread_state_.emplace();
  }
  /// Precondition: leave_thread().
  const at::ThreadLocalState& thread_state() const { return *thread_state_; }

  /// Runs `task` on a thread of the pool. It must let go of all that it holds.
  void post(CompletionPool::Task task) const;
  /// Once. Runs `deliver`, which puts the result where it belongs, or throws why there is none. It must let go of every
  /// tensor: when the work says that it is complete the interpreter may end, which the last reference may need.
  void complete(const std::function<void()>& deliver);

 private:
  const std::shared_ptr<GroupCore> core_;
  const size_t level_ = CompletionPool::level_here();
  std::optional<at::ThreadLocalState> thread_state_;
  c10::intrusive_ptr<SwitchWork> work_;
};

}  // namespace switchml
