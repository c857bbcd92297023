#include "c10d/work.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <utility>

#include "c10d/completion.h"

namespace switchml {

void throw_status(const Status& status, const std::string& context) {
  const std::string text = context + ": " + status.to_string();
  switch (status.code()) {
    case Code::kTimeout: compat::throw_timeout(text);
    case Code::kUnavailable: compat::throw_network_error(text);
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

c10::TypePtr value_type(size_t lists) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return lists > 1 ? c10::ListType::create(list) : list;
}

std::vector<at::Tensor> only(const std::vector<std::vector<at::Tensor>>& lists) {
  return lists.empty() ? std::vector<at::Tensor>() : lists[0];
}

}  // namespace

SwitchWork::SwitchWork(int rank, c10d::OpType type, const char* title, std::string context, uint64_t sequence,
                       std::vector<std::vector<at::Tensor>> outputs, const std::vector<at::Tensor>& inputs)
    : c10d::Work(rank, type, title, inputs),
      context_(std::move(context)),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(c10::make_intrusive<c10::ivalue::Future>(value_type(outputs_.size()))) {}

void SwitchWork::release_resources() {
  outputs_.clear();
  future_.reset();
}

bool SwitchWork::isCompleted() { return c10d::Work::isCompleted() && future_->completed(); }

bool SwitchWork::wait(std::chrono::milliseconds timeout) {
  if (!isCompleted()) {
    const CompletionPool::Wait waiting;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto complete = [this] { return completed_; };
    if (timeout.count() <= 0) {
      wait_for_deadline(lock);
    } else if (!cv_.wait_for(lock, timeout, complete)) {
      compat::throw_timeout(context_ + ": Operation timed out! wait() gave up after " +
                            std::to_string(timeout.count()) + " ms; the collective itself goes on");
    }
  }
  future_->wait();  // set right after, by the thread that completed the work
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void SwitchWork::wait_for_deadline(std::unique_lock<std::mutex>& lock) {
  // In slices: the deadline may be set later. A completion ends a slice at once.
  constexpr milliseconds kSlice{500};
  while (!completed_) {
    const Time now = monotonic_now();
    if (now >= deadline_) {
      compat::throw_timeout(
          context_ +
          ": timeout: the companion Gloo group did not finish the call in time: has a rank stopped, or "
          "refused its own arguments?");
    }
    cv_.wait_for(lock, std::min<Duration>(kSlice, deadline_ - now));
  }
}

void SwitchWork::end_waits_at(Time deadline) {
  const std::lock_guard<std::mutex> lock(mutex_);
  deadline_ = deadline;
}

std::vector<at::Tensor> SwitchWork::result() {
  if (!isCompleted())
    compat::throw_backend_error(context_ + ": result() before the work is completed; call wait() first");
  if (outputs_.size() > 1)
    compat::throw_argument_error(context_ +
                                 ": work result does not support list of lists, use .getFuture() and value()");
  return only(outputs_);
}

c10::intrusive_ptr<c10::ivalue::Future> SwitchWork::getFuture() { return future_; }

void SwitchWork::succeed() {
  // The work first: a callback of the future may wait for the work.
  finish();
  future_->markCompleted(outputs_.size() > 1 ? c10::IValue(outputs_) : c10::IValue(only(outputs_)));
}

void SwitchWork::fail(const std::exception_ptr& error) {
  finish(error);
  future_->setError(error);
}

}  // namespace switchml
