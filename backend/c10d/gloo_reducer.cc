#include "c10d/gloo_reducer.h"

#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "c10d/work.h"

namespace switchml {

namespace {

constexpr std::chrono::milliseconds kGrace{500};
// A rank may compute for long between two calls; who waits too long is told by the call's own timeout.
constexpr std::chrono::milliseconds kPatience = std::chrono::hours(24 * 7);

std::string text_of(const std::exception_ptr& error) { return exception_text(error).value_or("unknown error"); }

}  // namespace

bool destroy_within(c10::intrusive_ptr<compat::Base> group, std::chrono::milliseconds limit) {
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> future = gone->get_future();
  auto* held = new c10::intrusive_ptr<compat::Base>(std::move(group));  // where no thread can be made it stays for ever
  std::thread destroyer;
  try {
    destroyer = make_thread("the end of a Gloo group", [held, gone] {
      delete held;
      gone->set_value();
    });
  } catch (const NoThread&) {
    return false;
  }
  const bool in_time = future.wait_for(limit) == std::future_status::ready;
  if (in_time) {
    destroyer.join();
  } else {
    destroyer.detach();
  }
  return in_time;
}

GlooReducer::GlooReducer(c10::intrusive_ptr<compat::Base> group) : group_(std::move(group)) {}

GlooReducer::~GlooReducer() { destroy_within(std::move(group_), kGrace); }

Status GlooReducer::maximum(int64_t* values, size_t count) {
  return reduce(values, count, at::kLong, c10d::ReduceOp::MAX);
}
Status GlooReducer::maximum(int32_t* values, size_t count) {
  return reduce(values, count, at::kInt, c10d::ReduceOp::MAX);
}
Status GlooReducer::sum(int32_t* values, size_t count) { return reduce(values, count, at::kInt, c10d::ReduceOp::SUM); }

Status GlooReducer::reduce(void* values, size_t count, at::ScalarType type, c10d::ReduceOp::RedOpType op) {
  // A tensor of its own: Gloo may still write to it when the caller has been interrupted.
  std::vector<at::Tensor> tensors{at::empty({static_cast<int64_t>(count)}, type)};
  const size_t bytes = count * tensors[0].element_size();
  std::memcpy(tensors[0].data_ptr(), values, bytes);
  {
    const std::lock_guard<std::mutex> lock(wait_->mutex);
    wait_->done = false;
    wait_->error.clear();
  }
  try {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp(op);
    options.timeout = kPatience;
    const auto work = group_->allreduce(tensors, options);
    work->getFuture()->addCallback([wait = wait_, tensors](c10::ivalue::Future& future) {
      const std::lock_guard<std::mutex> lock(wait->mutex);
      wait->done = true;
      if (future.hasError()) wait->error = text_of(future.exception_ptr());
      wait->changed.notify_all();
    });
    std::unique_lock<std::mutex> lock(wait_->mutex);
    wait_->changed.wait(lock, [this] { return wait_->done || wait_->interrupted; });
    if (wait_->interrupted) return {Code::kAborted, "the process group was shut down"};
    if (!wait_->error.empty()) return {Code::kUnavailable, "Gloo: " + wait_->error};
  } catch (...) {
    return {Code::kUnavailable, "Gloo: " + text_of(std::current_exception())};
  }
  std::memcpy(values, tensors[0].data_ptr(), bytes);
  return {};
}

void GlooReducer::interrupt() {
  const std::lock_guard<std::mutex> lock(wait_->mutex);
  wait_->interrupted = true;
  wait_->changed.notify_all();
}

}  // namespace switchml
