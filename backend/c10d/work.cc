#include "c10d/work.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "c10d/completion.h"
#include "c10d/flight_log.h"

namespace switchml {

void throw_status(const Status& status, const std::string& context) {
  const std::string text = readable(context + ": " + status.to_string());
  switch (status.code()) {
    case Code::kTimeout: compat::throw_timeout(text);
    case Code::kInvalidArgument: compat::throw_value_error(text);
    default: compat::throw_backend_error(text);
  }
}

std::optional<std::string> exception_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& thrown) {
    return thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return std::nullopt;
  }
}

std::exception_ptr status_exception(const Status& status, const std::string& context) {
  try {
    throw_status(status, context);
  } catch (...) {
    return std::current_exception();
  }
}

namespace {

/// What has streams that a future records: all of a call's tensors are on one device.
std::vector<c10::Device> devices_of(const OutputLists& outputs, at::ArrayRef<at::Tensor> inputs) {
  const at::ArrayRef<at::Tensor> any = outputs.empty() || outputs[0].empty() ? inputs : outputs[0];
  if (any.empty() || any[0].is_cpu()) return {};
  return {any[0].device()};
}

std::atomic<bool> outlives{false};
std::atomic<int> under_completion{0};  // threads in complete()

std::vector<at::Tensor> only(const OutputLists& lists) { return lists.empty() ? std::vector<at::Tensor>() : lists[0]; }

}  // namespace

SwitchWork::SwitchWork(int rank, c10d::OpType type, CallRecord record, OutputLists outputs,
                       at::ArrayRef<at::Tensor> inputs, bool is_profiled)
    : c10d::Work(rank, type, is_profiled ? record.title() : nullptr,
                 is_profiled ? inputs.vec() : std::vector<at::Tensor>()),
      record_(std::move(record)),
      devices_(devices_of(outputs, inputs)),
      outputs_(std::move(outputs)) {
  if (!devices_.empty()) getFuture();
}

void SwitchWork::release_resources() {
  outputs_.clear();
  future_.reset();
}

bool SwitchWork::isCompleted() {
  if (fork_generation() != born_in_) return over_.load();  // a thread of the parent may have held the lock
  if (!over_.load() && c10d::Work::isCompleted()) {
    const auto future = made_future();
    if (!future || future->completed()) over_.store(true);
  }
  return over_.load();
}

bool SwitchWork::wait(std::chrono::milliseconds timeout) {
  if (fork_generation() != born_in_ && !over_.load()) {
    compat::throw_backend_error(
        context() + ": this process was forked from the one that made the call, which alone can wait for it");
  }
  const bool was_completed = isCompleted();
  if (!was_completed) wait_until_completed(timeout);
  if (!was_completed || !devices_.empty()) {
    // Set right after, by the thread that completed the work. The current streams of devices wait for the results, too.
    if (const auto future = made_future()) future->wait();
    if (blocks_host_ && !devices_.empty() && !exception_) {
      const Status status = await_current_stream(devices_.front(), blocks_host_);
      if (!status.ok()) throw_status(status, context());
    }
  }
  if (outlives.load() && !CompletionPool::on_its_thread()) await_completions();
  over_.store(true);
  compat::unregister(*this);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void SwitchWork::wait_until_completed(std::chrono::milliseconds timeout) {
  // In slices, between which signals come in. A completion ends a slice at once.
  constexpr milliseconds kSlice{500};
  constexpr milliseconds kFarewell{1000};
  constexpr milliseconds kForever = std::chrono::hours(24 * 365);
  const CompletionPool::Wait waiting;
  const bool limited = timeout.count() > 0;
  const Time end = monotonic_now() + std::min(timeout, kForever);
  if (waiters_work_) waiters_work_(monotonic_now() + std::min(limited ? timeout : kSlice, kSlice));
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const Duration left = limited ? end - monotonic_now() : Duration(kSlice);
    cv_.wait_for(lock, std::min<Duration>(kSlice, left), [this] { return completed_; });
    if (completed_) return;
    if (limited && monotonic_now() >= end) throw_late(timeout);
    lock.unlock();
    try {
      record_.let_signals_in();
    } catch (...) {
      // The group is over. Once that has reached the engine it writes to the caller's tensors no more.
      lock.lock();
      cv_.wait_for(lock, kFarewell, [this] { return completed_; });
      throw;
    }
    lock.lock();
  }
}

void SwitchWork::throw_late(std::chrono::milliseconds timeout) const {
  compat::throw_timeout(context() + ": Operation timed out! wait() gave up after " + std::to_string(timeout.count()) +
                        " ms; the collective itself goes on");
}

std::vector<at::Tensor> SwitchWork::result() {
  if (!isCompleted())
    compat::throw_backend_error(context() + ": result() before the work is completed; call wait() first");
  if (outputs_.size() > 1)
    compat::throw_argument_error(context() +
                                 ": work result does not support list of lists, use .getFuture() and value()");
  return only(outputs_);
}

c10::intrusive_ptr<c10::ivalue::Future> SwitchWork::made_future() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return future_;
}

c10::intrusive_ptr<c10::ivalue::Future> SwitchWork::getFuture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!future_) {
    const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(outputs_.size() > 1 ? c10::ListType::create(list) : list, devices_);
    if (completed_) set(*future_);
  }
  return future_;
}

void SwitchWork::set(c10::ivalue::Future& future) const {
  if (exception_) return future.setError(exception_);
  if (outputs_.size() <= 1) return future.markCompleted(c10::IValue(only(outputs_)));
  future.markCompleted(c10::IValue(std::vector<std::vector<at::Tensor>>(outputs_.begin(), outputs_.end())));
}

float SwitchWork::getDuration() const {
  if (!record_.begun()) {
    compat::throw_argument_error(
        context() + ": getDuration() of a call before which the group's enableCollectivesTiming() was not called");
  }
  const float taken = milliseconds_taken_.load();
  if (taken < 0)
    compat::throw_argument_error(context() + ": getDuration() before the work is completed; call wait() first");
  return taken;
}

std::optional<float> SwitchWork::time_taken() const {
  return record_.begun() ? std::optional<float>(milliseconds_taken_.load()) : std::nullopt;
}

// The work first: a callback of the future may wait for the work. A future made since is set already.
void SwitchWork::end(const std::exception_ptr& error) {
  if (const auto begun = record_.begun()) {
    milliseconds_taken_.store(static_cast<float>(to_seconds(monotonic_now() - *begun) * 1000));
  }
  record_.ended(error == nullptr, time_taken());
  finish(error);
  const auto future = made_future();
  if (future && !future->completed()) set(*future);
}

void SwitchWork::succeed() {
  const struct Last {  // also where a callback of the future throws
    const SwitchWork& work;
    ~Last() { work.record_.succeeded(compat::completion_key(work), work.time_taken()); }
  } last{*this};
  end(nullptr);
}

void SwitchWork::fail(const std::exception_ptr& error) { end(error); }

void SwitchWork::outlive_interpreter() { outlives.store(true); }

// A wait() returns when these threads have let go of their works, and of the tensors with them.
void SwitchWork::await_completions() {
  constexpr milliseconds kPatience{1000};
  const Time end = monotonic_now() + kPatience;
  while (under_completion.load() > 0 && monotonic_now() < end) std::this_thread::yield();
}

void SwitchWork::complete(c10::intrusive_ptr<SwitchWork> work, const std::exception_ptr& error) {
  under_completion.fetch_add(1);
  try {
    if (error) {
      work->fail(error);
    } else {
      work->succeed();
    }
  } catch (const std::exception& thrown) {
    SWITCHML_LOG(kError) << work->context() << ": a callback of the future threw: " << thrown.what();
  }
  work.reset();
  under_completion.fetch_sub(1);
}

// ---- OpenCall ----

namespace {
c10::intrusive_ptr<SwitchWork> begun(const GroupCore& core, CallRecord record, c10d::OpType type,
                                     at::ArrayRef<at::Tensor> inputs, OutputLists outputs, milliseconds timeout) {
  record.log(inputs, outputs, timeout);
  record.begin();
  return c10::make_intrusive<SwitchWork>(core.group().rank, type, std::move(record), std::move(outputs), inputs);
}
}  // namespace

OpenCall::OpenCall(std::shared_ptr<GroupCore> core, CallRecord record, c10d::OpType type,
                   at::ArrayRef<at::Tensor> inputs, OutputLists outputs, milliseconds timeout)
    : core_(std::move(core)), work_(begun(*core_, std::move(record), type, inputs, std::move(outputs), timeout)) {
  if (core_->blocks_hosts()) {
    work_->block_host([weak = std::weak_ptr<GroupCore>(core_)]() -> std::optional<Duration> {
      const std::shared_ptr<GroupCore> held = weak.lock();
      return held ? held->ended_for() : Duration::max();
    });
  }
  core_->begin_operation();
}

OpenCall::~OpenCall() {
  if (work_) core_->end_operation();
}

void OpenCall::post(CompletionPool::Task task) const {
  const std::shared_ptr<GroupCore> held = core_;  // keeps the pool while the task may let go of this
  held->pool().post(std::move(task), level_);
}

void OpenCall::complete(const std::function<void()>& deliver) {
  std::optional<at::ThreadLocalStateGuard> guard;
  if (thread_state_) guard.emplace(*thread_state_);
  std::exception_ptr error;
  try {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    deliver();
  } catch (...) {
    error = std::current_exception();
  }
  c10::intrusive_ptr<SwitchWork> ended = std::exchange(work_, {});
  core_->end_operation();
  if (error) core_->after_failure();  // Its hooks may end the group, which waits for operations.
  SwitchWork::complete(std::move(ended), error);
}

}  // namespace switchml
