#include "c10d/message_work.h"

namespace switchml {

MessageWork::MessageWork(Call call, c10d::OpType type, int rank, const std::vector<at::Tensor>& tensors)
    : c10d::Work(rank, type, profiling_title(call), tensors) {}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  bool done = false;
  try {
    done = message_->wait(timeout);
  } catch (...) {
    finish(std::current_exception());
    throw;
  }
  finish();
  return done;
}

}  // namespace switchml
