// What send and recv return: Gloo's work, which a profile shows under this backend's name.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "c10d/call_record.h"
#include "c10d/compat.h"
#include "c10d/group_core.h"

namespace switchml {

class MessageWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// `issue` hands the message to Gloo and returns its work. A profile shows the call with `tensors` from here to the
  /// end of wait(), as it does Gloo's messages, and does not see Gloo's. `peer`: -1 is any source.
  template <typename Issue>
  static WorkPtr start(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
                       const std::vector<at::Tensor>& tensors, int peer, int tag, Issue&& issue) {
    auto work = c10::make_intrusive<MessageWork>(core, call, type, tensors, tag);
    const at::RecordFunctionGuard unseen(false);
    work->message_ = issue();
    work->record_.log(tensors, {tensors}, {});
    work->record_.started();
    work->record_.set_peer(peer, tag);
    return work;
  }

  /// Use start().
  MessageWork(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
              const std::vector<at::Tensor>& tensors, int tag);

  bool isCompleted() override;
  /// Gloo names no rank: where the group fails with it, or a moment later, its error is that of the group.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override { return message_->sourceRank(); }
  std::vector<at::Tensor> result() override { return message_->result(); }
  void abort() override { message_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return message_->getFuture(); }
  void release_resources() override { message_.reset(); }  // weak references may outlive that

 private:
  /// It is over; what came from any source is known to be from one.
  void log_end(bool good);
  /// Null: it was aborted, and not because the group has failed. `late`: the caller's timeout has passed.
  std::exception_ptr explained(const std::exception_ptr& error, bool late) const;

  const std::weak_ptr<GroupCore> core_;
  const bool from_any_;
  const int tag_;
  CallRecord record_;
  WorkPtr message_;
  std::atomic<bool> told_{false};
};

}  // namespace switchml
