#include "c10d/memory_message.h"

#include <atomic>
#include <optional>
#include <utility>

#include "base/thread.h"
#include "c10d/flight_entries.h"
#include "c10d/staging.h"
#include "c10d/work.h"

namespace switchml {

namespace {

using Tensors = std::vector<at::Tensor>;

/// One end of a message on its way; kept by what shm calls when it is over. Who completes the work: a thread that waits
/// for it at that moment, or else one of the pool's.
class InMemory : public std::enable_shared_from_this<InMemory> {
 public:
  InMemory(const std::shared_ptr<GroupCore>& core, const std::shared_ptr<shm::Messages>& memory, Call call,
           const at::Tensor& tensor)
      : core_(core),
        memory_(memory),
        call_(call),
        view_(std::in_place, tensor, call == Call::kSend ? HostView::Use::kRead : HostView::Use::kWrite) {}

  c10::intrusive_ptr<c10d::Work> start(c10d::OpType type, const Tensors& tensors, shm::Message message);

 private:
  enum class State {
    kOpen,    // nobody waits in a way that would complete it
    kTended,  // this thread will
    kOver,
  };

  void over(const Status& status, int source);
  void work_until(Time end);
  void tend(const std::function<void()>& work);
  void complete();

  std::shared_ptr<GroupCore> core_;
  std::shared_ptr<shm::Messages> memory_;
  const Call call_;
  int tag_ = 0;
  const size_t level_ = CompletionPool::level_here();
  const at::ThreadLocalState thread_state_;
  std::optional<HostView> view_;
  c10::intrusive_ptr<SwitchWork> work_;
  std::atomic<State> state_{State::kOpen};
  Status status_;  // this and the source: written before kOver
  int source_ = -1;
};

c10::intrusive_ptr<c10d::Work> InMemory::start(c10d::OpType type, const Tensors& tensors, shm::Message message) {
  auto work = begin_work(core_, call_, type, profiling_title(call_), core_->sequence(), std::vector<Tensors>{tensors},
                         tensors, time_until(message.deadline));
  FlightLog::of_process().started(work->flight());
  tag_ = message.tag;
  log_peer(*core_, work->flight(), call_, message.peer, tag_);
  work->let_waiter_work([weak = weak_from_this()](Time end) {
    if (const std::shared_ptr<InMemory> self = weak.lock()) self->work_until(end);
  });
  work_ = work;
  message.done = [self = shared_from_this()](const Status& status, int source) { self->over(status, source); };
  if (call_ == Call::kSend) {
    message.from = view_->data();
  } else {
    message.to = view_->data();
  }
  core_->calls().add(call_, Way::kMemory);
  core_->begin_operation();
  tend([&] {
    try {
      call_ == Call::kSend ? memory_->send(std::move(message)) : memory_->receive(std::move(message));
    } catch (const NoThread& none) {
      over(none.status(), -1);
    }
  });
  return work;
}

void InMemory::over(const Status& status, int source) {
  status_ = status;
  source_ = source;
  if (state_.exchange(State::kOver) == State::kTended) return;
  const std::shared_ptr<GroupCore> held = core_;  // and with it the pool, for the duration of post()
  held->pool().post([self = shared_from_this()]() mutable { std::exchange(self, nullptr)->complete(); }, level_);
}

/// Does `work`, and what is to be done here if the message ends meanwhile.
void InMemory::tend(const std::function<void()>& work) {
  State expected = State::kOpen;
  if (!state_.compare_exchange_strong(expected, State::kTended)) return;
  work();
  expected = State::kTended;
  if (!state_.compare_exchange_strong(expected, State::kOpen)) complete();
}

void InMemory::work_until(Time end) {
  const std::shared_ptr<shm::Messages> memory = memory_;
  tend([&] { memory->work_until([this] { return state_.load() == State::kOver; }, end); });
}

/// Lets go of the tensors before it signals: whoever is signalled may end the interpreter.
void InMemory::complete() {
  const at::ThreadLocalStateGuard guard(thread_state_);
  std::exception_ptr error;
  try {
    if (!status_.ok()) throw_status(status_, work_->context());
    view_->write_back();
  } catch (...) {
    error = std::current_exception();
  }
  view_.reset();
  c10::intrusive_ptr<SwitchWork> completed = std::move(work_);
  if (source_ >= 0) completed->set_source(source_);
  log_peer(*core_, completed->flight(), call_, source_, tag_);
  core_->end_operation();
  if (error) core_->after_failure();
  SwitchWork::complete(std::move(completed), error);
}

c10::intrusive_ptr<c10d::Work> start(const std::shared_ptr<GroupCore>& core,
                                     const std::shared_ptr<shm::Messages>& memory, Call call, c10d::OpType type,
                                     const Tensors& tensors, int peer, int tag, Time deadline) {
  if (const Status started = core->pool().start(); !started.ok()) throw_status(started, core->context(call));
  shm::Message message;
  message.peer = peer;
  message.tag = tag;
  message.bytes = tensors[0].nbytes();
  message.deadline = deadline;
  return std::make_shared<InMemory>(core, memory, call, tensors[0])->start(type, tensors, std::move(message));
}

}  // namespace

c10::intrusive_ptr<c10d::Work> send_in_memory(const std::shared_ptr<GroupCore>& core,
                                              const std::shared_ptr<shm::Messages>& memory, const Tensors& tensors,
                                              int destination, int tag, Time deadline) {
  return start(core, memory, Call::kSend, c10d::OpType::SEND, tensors, destination, tag, deadline);
}

c10::intrusive_ptr<c10d::Work> recv_in_memory(const std::shared_ptr<GroupCore>& core,
                                              const std::shared_ptr<shm::Messages>& memory, const Tensors& tensors,
                                              int source, int tag, Time deadline) {
  const bool any = source == shm::kAnySource;
  return start(core, memory, any ? Call::kRecvAnySource : Call::kRecv,
               any ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV, tensors, source, tag, deadline);
}

}  // namespace switchml
