#include "c10d/message_call.h"

#include <atomic>
#include <optional>
#include <utility>

#include "c10d/staging.h"
#include "c10d/work.h"

namespace switchml {

namespace {

using Tensors = std::vector<at::Tensor>;

/// One end of a message on its way, which its callback keeps. The work is completed by a thread that waits for
/// it at that moment, or else by one of the pool's.
class MessageCall : public std::enable_shared_from_this<MessageCall> {
 public:
  MessageCall(const std::shared_ptr<GroupCore>& core, std::shared_ptr<Messages> messages, Call call, c10d::OpType type,
              const Tensors& tensors, const Message& message)
      : messages_(std::move(messages)),
        sends_(call == Call::kSend),
        tag_(message.tag),
        copies_(tensors[0].is_cpu() ? nullptr : new_copies(core, tensors[0].device(), to_string(call))),
        view_(std::in_place, tensors[0], sends_ ? HostView::Use::kRead : HostView::Use::kWrite, false, copies_),
        call_(core, CallRecord(core, call, core->message_way()), type, tensors, {tensors},
              time_until(message.deadline)) {}

  c10::intrusive_ptr<c10d::Work> start(Message message);

 private:
  enum class State {
    kOpen,    // No thread waits in a way that would complete it.
    kTended,  // A thread waits, and will complete it.
    kOver,
  };

  void send_in_order(const Message& message);
  void over(const Status& status, int source);
  void work_until(Time end);
  void tend(const std::function<void()>& work);
  void complete();

  std::shared_ptr<Messages> messages_;
  const bool sends_;
  const int tag_;
  const std::shared_ptr<DeviceCopies> copies_;  // Null for a tensor of the host.
  std::optional<HostView> view_;
  OpenCall call_;
  std::atomic<State> state_{State::kOpen};
  Status status_;  // This and the source are written before kOver.
  int source_ = -1;
};

c10::intrusive_ptr<c10d::Work> MessageCall::start(Message message) {
  call_.leave_thread();
  const c10::intrusive_ptr<SwitchWork> work = call_.work();
  work->record().started();
  work->record().set_peer(message.peer, tag_);
  if (copies_) {
    copies_->follow_caller();
  } else {
    work->let_waiter_work([weak = weak_from_this()](Time end) {
      if (const std::shared_ptr<MessageCall> self = weak.lock()) self->work_until(end);
    });
  }
  message.done = [self = shared_from_this()](const Status& status, int source) { self->over(status, source); };
  sends_ ? message.from = view_->data() : message.to = view_->data();
  if (sends_ && (copies_ || call_.core()->sends().is_held())) {
    send_in_order(message);
    return work;
  }
  tend([&] { sends_ ? messages_->send(std::move(message)) : messages_->receive(std::move(message)); });
  return work;
}

/// It goes behind what is still copied from a device.
void MessageCall::send_in_order(const Message& message) {
  const auto send = [self = shared_from_this(), message] {
    if (!self->copies_) return self->messages_->send(Message(message));
    self->call_.core()->stager().post([self, message] {
      const Status fed = self->call_.core()->feed(*self->copies_, nullptr, message.deadline);
      fed.ok() ? self->messages_->send(Message(message)) : self->over(fed, -1);
      self->call_.core()->sends().release();
    });
  };
  if (call_.core()->sends().pass(send, copies_ != nullptr)) send();
}

void MessageCall::over(const Status& status, int source) {
  status_ = status;
  source_ = source;
  if (state_.exchange(State::kOver) == State::kTended) return;
  call_.post([self = shared_from_this()]() mutable { std::exchange(self, nullptr)->complete(); });
}

/// Does `work`, and what is to be done here if the message ends meanwhile.
void MessageCall::tend(const std::function<void()>& work) {
  State expected = State::kOpen;
  if (!state_.compare_exchange_strong(expected, State::kTended)) return;
  work();
  expected = State::kTended;
  if (!state_.compare_exchange_strong(expected, State::kOpen)) complete();
}

void MessageCall::work_until(Time end) {
  const std::shared_ptr<Messages> messages = messages_;
  tend([&] { messages->work_until([this] { return state_.load() == State::kOver; }, end); });
}

void MessageCall::complete() {
  if (source_ >= 0) call_.work()->set_source(source_);
  call_.record().set_peer(source_, tag_);
  const DeviceCopies::Current current(copies_);
  call_.complete([this] {
    std::optional<HostView> view = std::exchange(view_, std::nullopt);
    if (copies_ && !status_.ok()) copies_->drop_results();
    if (!status_.ok()) throw_status(status_, call_.record().context());
    view->write_back();
  });
}

}  // namespace

std::shared_ptr<Messages> messages_of(const GroupCore& core, Call call) {
  if (const Status closed = core.closed(); !closed.ok()) throw_status(closed, core.context(call));
  if (const std::shared_ptr<Session> session = core.session()) return session->messages();
  throw_status({Code::kUnavailable, "a group of one has no other rank"}, core.context(call));
}

c10::intrusive_ptr<c10d::Work> start_message(const std::shared_ptr<GroupCore>& core, Call call, c10d::OpType type,
                                             const Tensors& tensors, int peer, int tag, Time deadline) {
  const std::shared_ptr<Messages> messages = messages_of(*core, call);
  core->start_pool(call);
  Message message;
  message.peer = peer;
  message.tag = tag;
  message.bytes = tensors[0].nbytes();
  message.deadline = deadline;
  return std::make_shared<MessageCall>(core, messages, call, type, tensors, message)->start(std::move(message));
}

}  // namespace switchml
