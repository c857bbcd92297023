#include "c10d/gloo_delegate.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "c10d/work.h"

namespace switchml {

namespace {

/// Destroys the group. Its destructor waits for its operations; after `limit` a thread of its own goes on waiting,
/// and false is returned.
bool destroy_within(c10::intrusive_ptr<compat::Base> group, std::chrono::milliseconds limit) {
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> future = gone->get_future();
  auto* held = new c10::intrusive_ptr<compat::Base>(std::move(group));  // Leaked if no thread can be made.
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

}  // namespace

c10::intrusive_ptr<compat::Base> GlooDelegate::get() {
  Factory factory;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    made_.wait(lock, [this] { return !making_; });
    if (group_) return group_;
    if (!factory_) throw_status(core_->closed(), "switchml: Gloo group of " + core_->group().name);
    making_ = true;
    factory = factory_;
  }
  // Without the lock: the factory may wait for Python's, and the holder of that may want ours.
  c10::intrusive_ptr<compat::Base> group;
  std::exception_ptr error;
  try {
    group = factory();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  making_ = false;
  made_.notify_all();
  if (error) std::rethrow_exception(error);
  if (!factory_) throw_status(core_->closed(), "switchml: Gloo group of " + core_->group().name);
  group_ = group;
  return group;
}

c10::intrusive_ptr<compat::Base> GlooDelegate::existing() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return group_;
}

void GlooDelegate::release(std::chrono::milliseconds limit) {
  c10::intrusive_ptr<compat::Base> group;
  Factory factory;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    group.swap(group_);
    factory.swap(factory_);
  }
  if (!group) return;
  if (destroy_within(std::move(group), limit)) return;
  SWITCHML_LOG(kWarning) << "group " << core_->group().name
                         << ": operations of its Gloo group still wait for other ranks; they are left behind";
}

/// One started call. Its work is completed exactly once, by the first of these: the precheck's failure, the group's
/// works or abort().
class GlooDelegate::Operation : public std::enable_shared_from_this<GlooDelegate::Operation> {
 public:
  Operation(const std::shared_ptr<GroupCore>& core, c10::intrusive_ptr<compat::Base> group, const CallRecord& record,
            c10d::OpType type, milliseconds timeout, Issue issue, const std::vector<at::Tensor>& inputs,
            std::vector<std::vector<at::Tensor>> outputs, std::function<void()> finish)
      : group_(std::move(group)),
        timeout_(timeout),
        issue_(std::move(issue)),
        finish_(std::move(finish)),
        call_(core, record, type, inputs, std::move(outputs), timeout),
        record_(call_.record()) {}

  const c10::intrusive_ptr<SwitchWork>& work() const { return call_.work(); }

  /// The precheck has passed. Under the queue's lock.
  bool ready = false;

  /// Hands the call to the group. Once, unless end() came first. `may_throw`: what the group refuses goes to the
  /// caller.
  void issue(bool may_throw) {
    std::vector<WorkPtr> works;
    try {
      const at::ThreadLocalStateGuard guard(call_.thread_state());
      const Issue issue = std::exchange(issue_, nullptr);
      const c10::intrusive_ptr<compat::Base> group = std::exchange(group_, {});
      if (ended_.load()) return;
      issued_at_ = monotonic_now();
      if (timeout_.count() > 0) call_.end_waits_at(issued_at_ + timeout_ + kPatience);
      // A profiler that looks at this thread would see the call a second time.
      const at::RecordFunctionGuard unseen(false);
      record_.started();
      works = issue(*group);
    } catch (...) {
      if (may_throw) throw;
      return end(std::current_exception());
    }
    watch(std::move(works));
  }

  /// Completes the work, with an error or, `error` null, after the finish.
  void end(const std::exception_ptr& error) {
    if (ended_.exchange(true)) return;
    call_.post([self = shared_from_this(), error] { self->complete(error); });
  }

  const std::string& context() const { return record_.context(); }
  bool ended() const { return ended_.load(); }

 private:
  void watch(std::vector<WorkPtr> works) {
    unfinished_.store(works.size() + 1);
    for (const WorkPtr& part : works) {
      part->getFuture()->addCallback([self = shared_from_this()](c10::ivalue::Future& future) {
        if (!future.hasError()) return self->one_less();
        self->broke(gloo_exception(future.exception_ptr(), self->context()));
      });
    }
    one_less();
  }

  /// The group failed the call. Its reason counts unless abort() has a better one in time.
  void broke(const std::exception_ptr& error) {
    if (timeout_.count() > 0 && monotonic_now() >= issued_at_ + timeout_) return end(error);
    const auto wait_and_end = [self = shared_from_this(), error] {
      {
        const CompletionPool::Wait wait;
        self->call_.core()->await_verdict([&] { return self->ended(); });
      }
      self->end(error);
    };
    call_.post(wait_and_end);
  }

  void one_less() {
    if (unfinished_.fetch_sub(1) == 1) end(nullptr);
  }

  /// On a completion thread.
  void complete(const std::exception_ptr& error) {
    call_.complete([this, &error] {
      const std::function<void()> finish = std::exchange(finish_, nullptr);
      if (error) std::rethrow_exception(error);
      if (finish) finish();
    });
  }

  static constexpr milliseconds kPatience{1000};  // Gloo's own timeout comes first, where it works.

  c10::intrusive_ptr<compat::Base> group_;
  const milliseconds timeout_;
  Issue issue_;
  std::function<void()> finish_;
  OpenCall call_;
  const CallRecord record_;
  Time issued_at_{};  // Written before any work of the group is watched.
  std::atomic<size_t> unfinished_{0};
  std::atomic<bool> ended_{false};
};

GlooDelegate::WorkPtr GlooDelegate::start(const CallRecord& record, c10d::OpType type, const WorkPtr& precheck,
                                          std::chrono::milliseconds timeout, Issue issue,
                                          const std::vector<at::Tensor>& inputs,
                                          std::vector<std::vector<at::Tensor>> outputs, std::function<void()> finish) {
  const auto operation = std::make_shared<Operation>(core_, get(), record, type, timeout, std::move(issue), inputs,
                                                     std::move(outputs), std::move(finish));
  const c10::intrusive_ptr<SwitchWork> work = operation->work();
  if (!precheck) {
    operation->issue(true);
    remember(operation);
    return work;
  }
  {
    const std::lock_guard<std::mutex> lock(queue_->mutex);
    queue_->waiting.push_back(operation);
  }
  remember(operation);
  precheck->getFuture()->addCallback([operation, queue = queue_](c10::ivalue::Future& future) {
    if (future.hasError()) operation->end(future.exception_ptr());
    {
      const std::lock_guard<std::mutex> lock(queue->mutex);
      operation->ready = true;
    }
    drain(*queue);
  });
  return work;
}

// By one thread at a time, so that the group gets the calls in their order whichever precheck is told first.
void GlooDelegate::drain(Queue& queue) {
  std::unique_lock<std::mutex> lock(queue.mutex);
  if (queue.draining) return;
  queue.draining = true;
  while (!queue.waiting.empty() && queue.waiting.front()->ready) {
    const std::shared_ptr<Operation> next = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    lock.unlock();
    next->issue(false);
    lock.lock();
  }
  queue.draining = false;
}

void GlooDelegate::remember(const std::shared_ptr<Operation>& operation) {
  const std::lock_guard<std::mutex> lock(queue_->mutex);
  auto& started = queue_->started;
  const auto over = [](const std::weak_ptr<Operation>& weak) {
    const std::shared_ptr<Operation> strong = weak.lock();
    return !strong || strong->ended();
  };
  started.erase(std::remove_if(started.begin(), started.end(), over), started.end());
  started.push_back(operation);
}

void GlooDelegate::abort(const Status& reason) {
  std::vector<std::weak_ptr<Operation>> started;
  {
    const std::lock_guard<std::mutex> lock(queue_->mutex);
    started.swap(queue_->started);
  }
  for (const auto& weak : started) {
    if (const std::shared_ptr<Operation> operation = weak.lock()) {
      operation->end(status_exception(reason, operation->context()));
    }
  }
}

}  // namespace switchml
