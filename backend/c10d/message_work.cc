#include "c10d/message_work.h"

#include "c10d/flight_log.h"

namespace switchml {

MessageWork::MessageWork(Call call, c10d::OpType type, int rank, const std::vector<at::Tensor>& tensors)
    : c10d::Work(rank, type, profiling_title(call), tensors) {}

bool MessageWork::isCompleted() {
  const bool completed = message_->isCompleted();
  if (completed) FlightLog::of_process().ended(flight_, message_->isSuccess());
  return completed;
}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  bool done = false;
  try {
    done = message_->wait(timeout);
  } catch (...) {
    FlightLog::of_process().ended(flight_, false);
    finish(std::current_exception());
    throw;
  }
  FlightLog::of_process().ended(flight_, done);
  finish();
  return done;
}

}  // namespace switchml
