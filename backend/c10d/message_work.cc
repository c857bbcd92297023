#include "c10d/message_work.h"

#include "base/clock.h"
#include "c10d/completion.h"
#include "c10d/flight_log.h"
#include "c10d/work.h"

namespace switchml {

MessageWork::MessageWork(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
                         const std::vector<at::Tensor>& tensors, int tag)
    : c10d::Work(core->group().rank, type, profiling_title(call), tensors), core_(core), call_(call), tag_(tag) {}

/// -1: its work does not say.
static int source_of(const c10d::Work& message) {
  try {
    return message.sourceRank();
  } catch (const std::exception&) {
    return -1;
  }
}

void MessageWork::log_end(bool good) {
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (good && core && call_ == Call::kRecvAnySource) log_peer(*core, flight_, call_, source_of(*message_), tag_);
  FlightLog::of_process().ended(flight_, good);
  if (good && core && !told_.exchange(true)) core->completion_hooks().run(compat::completion_key(*this), std::nullopt);
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
  if (late || failure.ok()) return error ? gloo_exception(error, core->context(call_)) : error;
  core->after_failure();
  return status_exception(failure, core->context(call_));
}

}  // namespace switchml
