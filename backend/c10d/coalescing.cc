#include "c10d/coalescing.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace switchml {
namespace {

using WorkPtr = CoalescedWork::WorkPtr;

/// The tensors in a future's value: a list, or a list of lists.
void append(const c10::IValue& value, std::vector<at::Tensor>* tensors) {
  if (value.isTensor()) tensors->push_back(value.toTensor());
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) append(element, tensors);
  }
}

/// Completes a future when all of others are.
struct Together {
  std::mutex mutex;
  size_t unfinished = 0;
  std::exception_ptr error;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> parts;
  c10::intrusive_ptr<c10::ivalue::Future> whole;

  void one_less(const std::exception_ptr& problem) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = problem;
      if (--unfinished > 0) return;
    }
    const auto all = std::exchange(parts, {});  // they hold what holds this
    if (error) return whole->setError(error);
    std::vector<at::Tensor> tensors;
    for (const auto& part : all) {
      part->wait();  // The current streams of its devices wait, too.
      append(part->value(), &tensors);
    }
    whole->markCompleted(c10::IValue(std::move(tensors)));
  }
};

std::chrono::milliseconds left(std::chrono::milliseconds timeout, Time end) {
  if (timeout.count() <= 0) return timeout;
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - monotonic_now());
  return std::max(rest, std::chrono::milliseconds(1));
}

}  // namespace

CoalescedWork::CoalescedWork(int rank, std::vector<WorkPtr> works)
    : c10d::Work(rank, c10d::OpType::UNKNOWN), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
  const Time end = monotonic_now() + std::min(timeout, kForever);
  bool done = true;
  std::exception_ptr error;
  for (const WorkPtr& work : works_) {
    try {
      done = work->wait(left(timeout, end)) && done;
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  finish(error);
  if (error) std::rethrow_exception(error);
  return done;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const WorkPtr& work : works_) {
    const std::vector<at::Tensor> part = work->result();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void CoalescedWork::abort() {
  for (const WorkPtr& work : works_) work->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  const std::lock_guard<std::mutex> lock(future_mutex_);
  if (future_) return future_;
  const auto together = std::make_shared<Together>();
  std::vector<c10::Device> devices;
  for (const WorkPtr& work : works_) {
    together->parts.push_back(work->getFuture());
    const std::vector<c10::Device>& more = together->parts.back()->devices();
    devices.insert(devices.end(), more.begin(), more.end());
  }
  together->whole =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
  const auto parts = together->parts;
  future_ = together->whole;
  together->unfinished = parts.size() + 1;
  for (const auto& part : parts) {
    part->addCallback([together](c10::ivalue::Future& done) {
      together->one_less(done.hasError() ? done.exception_ptr() : nullptr);
    });
  }
  together->one_less(nullptr);
  return future_;
}

void Coalescing::begin() {
  std::vector<WorkPtr> dropped;  // may be the last references: they go after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owner_ && owner_ != std::this_thread::get_id()) {
    compat::throw_argument_error(
        "switchml: startCoalescing() while another thread's calls are coalesced; allowed: after its endCoalescing()");
  }
  owner_ = std::this_thread::get_id();
  dropped.swap(works_);  // those of a start that an exception left without its end
}

void Coalescing::add(const WorkPtr& work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owner_ == std::this_thread::get_id()) works_.push_back(work);
}

WorkPtr Coalescing::end(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owner_ != std::this_thread::get_id()) {
    compat::throw_argument_error("switchml: endCoalescing() on a thread that has not called startCoalescing()");
  }
  owner_.reset();
  return c10::make_intrusive<CoalescedWork>(rank, std::exchange(works_, {}));
}

}  // namespace switchml
