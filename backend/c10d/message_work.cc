#include "c10d/message_work.h"

#include "base/clock.h"
#include "c10d/completion.h"
#include "c10d/work.h"

namespace switchml {

MessageWork::MessageWork(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
                         const std::vector<at::Tensor>& tensors, int tag)
    : c10d::Work(core->group().rank, type, profiling_title(call), tensors),
      core_(core),
      from_any_(call == Call::kRecvAnySource),
      tag_(tag),
      record_(core, call, Way::kGloo) {}

/// -1: its work does not say.
static int source_of(const c10d::Work& message) {
  try {
    return message.sourceRank();
  } catch (const std::exception&) {
    return -1;
  }
}

void MessageWork::log_end(bool good) {
  if (good && from_any_) record_.set_peer(source_of(*message_), tag_);
  record_.ended(good);
  if (good && !told_.exchange(true)) record_.succeeded(compat::completion_key(*this));
}

bool MessageWork::isCompleted() {
  const bool completed = message_->isCompleted();
  if (completed) log_end(message_->isSuccess());
  return completed;
}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  const Time begin = monotonic_now();
  bool done = false;
  std::exception_ptr error;
  try {
    done = message_->wait(timeout);
  } catch (...) {
    error = std::current_exception();
  }
  const bool late = timeout.count() > 0 && monotonic_now() - begin >= timeout;
  if (!done) error = explained(error, late);
  log_end(done);
  finish(error);
  if (error) std::rethrow_exception(error);
  return done;
}

std::exception_ptr MessageWork::explained(const std::exception_ptr& error, bool late) const {
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (!core) return error;
  if (error && !late) {
    const CompletionPool::Wait waiting;
    core->await_verdict([&] { return !core->failure().ok(); });
  }
  const Status failure = core->failure();
  if (late || failure.ok()) return error ? gloo_exception(error, record_.context()) : error;
  core->after_failure();
  return status_exception(failure, record_.context());
}

}  // namespace switchml
