// What send and recv return: Gloo's work, which a profile shows under this backend's name.
#pragma once

#include <ATen/record_function.h>

#include <chrono>
#include <vector>

#include "c10d/compat.h"
#include "c10d/flight_entries.h"
#include "c10d/flight_log.h"

namespace switchml {

class MessageWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// `issue` hands the message to Gloo and returns its work. A profile shows `call` with `tensors` from here to the end
  /// of wait(), as it does Gloo's messages, and does not see Gloo's. So does the flight log.
  template <typename Issue>
  static WorkPtr start(const GroupCore& core, Call call, c10d::OpType type, const std::vector<at::Tensor>& tensors,
                       Issue&& issue) {
    auto work = c10::make_intrusive<MessageWork>(call, type, core.group().rank, tensors);
    const at::RecordFunctionGuard unseen(false);
    work->message_ = issue();
    work->flight_ = log_call(core, call, core.sequence(), tensors, {tensors}, {});
    FlightLog::of_process().started(work->flight_);
    return work;
  }

  /// Use start().
  MessageWork(Call call, c10d::OpType type, int rank, const std::vector<at::Tensor>& tensors);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override { return message_->sourceRank(); }
  std::vector<at::Tensor> result() override { return message_->result(); }
  void abort() override { message_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return message_->getFuture(); }

 private:
  WorkPtr message_;
  uint64_t flight_ = 0;  // in FlightLog
};

}  // namespace switchml
