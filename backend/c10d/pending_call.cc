#include "c10d/pending_call.h"

#include <algorithm>
#include <sstream>

#include "base/log.h"

namespace switchml {

void EngineCall::Pending::launch(bool waits) {
  const bool holds = more != nullptr || feeds_first();
  if (holds || core->order().is_held()) {
    call->leave_thread();
    const auto later = [self = shared_from_this()] {
      self->is_elsewhere = true;
      self->begin(false);
    };
    if (!core->order().pass(later, holds)) return;
  }
  begin(waits);
}

void EngineCall::Pending::begin(bool waits) {
  if (!feeds_first()) return start(waits);
  core->stager().post([self = shared_from_this()] {
    self->is_elsewhere = true;
    self->status = self->core->feed(*self->copies, nullptr, self->parts.front().deadline);
    self->status.ok() ? self->start(false) : post(self);
    self->core->order().release();
  });
}

void EngineCall::Pending::start(bool waits) {
  const std::shared_ptr<Session> session = core->session();
  self_ = shared_from_this();
  unfinished.store(parts.size() + 1);
  if (session) {
    if (copies) gate();
    fly(session->engine(), waits && !copies);
    if (copies && !feeds_first()) {
      core->stager().post([core = core, copies = copies, session] { static_cast<void>(core->feed(*copies, session)); });
    }
  } else {
    const Status closed = core->closed();
    for (const Collective& part : parts) ended(closed.ok() ? complete_alone(part) : closed);
  }
  if (unfinished.load() > 1) call->leave_thread();
  if (!ended(Status::ok_status())) return;
  const std::shared_ptr<Pending> self = std::move(self_);
  // All is over: no other thread is needed, but where it would take this one long.
  const bool is_quick = core->group().size == 1 || (status.ok() && !awaits_earlier());
  if (is_quick && !is_elsewhere) return complete();
  call->leave_thread();
  post(self);
}

void EngineCall::Pending::fly(Engine& engine, bool waits) {
  const std::unique_ptr<CallerTurn> turn = waits ? engine.begin_turn(bytes()) : nullptr;
  // The engine gets copies: `parts` stays for messages.
  for (const Collective& part : parts) {
    Collective collective = part;
    collective.done = [this](const Status& outcome) {
      if (ended(outcome)) post(std::move(self_));
    };
    engine.submit(std::move(collective));
  }
  if (!turn) return;
  // No longer than wait() waits before it lets signals in: their handlers, and Python's lock, may depend on others of
  // this group, which do no work during a turn.
  const CompletionPool::Wait waiting;
  turn->work_until([this] { return unfinished.load() == 1; });
}

void EngineCall::Pending::gate() {
  const auto written = [weak = std::weak_ptr<DeviceCopies>(copies), core = core.get()] {
    if (const auto copies_ = weak.lock()) core->stager().post([copies_] { copies_->copy_out_early(); }, 1);
  };
  for (Collective& part : parts) copies->gate(&part, core->group().rank, written);
}

size_t EngineCall::Pending::bytes() const {
  size_t sum = 0;
  for (const Collective& part : parts) sum += part.count * element_bytes(part.type);
  return sum;
}

bool EngineCall::Pending::ended(const Status& outcome) {
  if (!outcome.ok()) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (status.ok()) status = outcome;
  }
  return unfinished.fetch_sub(1) == 1;
}

void EngineCall::Pending::post(std::shared_ptr<Pending> self) {
  const OpenCall& call = *self->call;
  call.post([self = std::move(self)]() mutable { std::exchange(self, nullptr)->complete(); });
}

void EngineCall::Pending::complete() {
  if (more && status.ok()) return go_on();
  if (std::exchange(more, nullptr)) core->order().release();
  const DeviceCopies::Current current(copies);
  call->complete([this] {
    Results delivered;
    std::swap(delivered, results);
    if (!status.ok() && copies) copies->drop_results();
    if (!status.ok()) throw_failure();
    for (const Outstanding::WeakWork& weak : before) wait_for(weak);
    delivered.write();
  });
}

void EngineCall::Pending::go_on() {
  const std::shared_ptr<Pending> self = shared_from_this();  // What is started may end at once.
  const auto add_parts = std::exchange(more, nullptr);
  const Collectives done = std::exchange(parts, {});
  try {
    const at::ThreadLocalStateGuard guard(call->thread_state());
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    add_parts(self);
  } catch (...) {
    more = nullptr;
    parts = done;
    status = Status(Code::kUnavailable, exception_text(std::current_exception()).value_or("an unknown error"));
    core->give_up(status.message());
    core->order().release();
    return complete();
  }
  const bool is_last = !more;
  is_elsewhere = true;
  start(false);
  if (is_last) core->order().release();
}

bool EngineCall::Pending::awaits_earlier() const {
  return std::any_of(before.begin(), before.end(), [](const Outstanding::WeakWork& weak) {
    const c10::intrusive_ptr<c10d::Work> earlier = weak.lock();
    return earlier && !earlier->isCompleted();
  });
}

void EngineCall::Pending::wait_for(const Outstanding::WeakWork& weak) {
  const c10::intrusive_ptr<c10d::Work> earlier = weak.lock();
  if (!earlier) return;
  try {
    earlier->wait();
  } catch (const std::exception& error) {
    SWITCHML_LOG(kDebug) << "a barrier waited for a collective that failed: " << error.what();
  }
}

void EngineCall::Pending::throw_failure() {
  if (!refused) core->call_failed(status);
  const std::string text = call->record().context() + " [" + describe() + "]";
  if (status.code() != Code::kMismatch || refused) throw_status(status, text);
  // What the engine says of a precheck is about the precheck, not about the call that it accompanies.
  const std::string reason = what.empty() ? status.message() : "ranks called different collectives";
  const std::string comparison = core->compare_calls(describe());
  throw_status(Status(Code::kMismatch, reason + (comparison.empty() ? "" : "; " + comparison)), text);
}

std::string EngineCall::Pending::describe() const {
  std::ostringstream text;
  text << "call " << call->record().sequence() << ": " << parts.front().title.text() << '(';
  if (!what.empty()) {
    text << what;
  } else if (parts.front().op != ReduceOp::kBarrier) {
    text << operation << ", " << switchml::to_string(parts.front().type) << ", ";
    const size_t tensors = parts.size() / parts_of_each;
    for (size_t i = 0; i < std::min<size_t>(tensors, 8); ++i) {
      text << (i == 0 ? "" : " + ") << parts[i * parts_of_each].count;
    }
    if (tensors > 8) text << " + ... (" << tensors << " tensors)";
    text << " elements";
    if (!detail.empty()) text << ", " << detail;
    if (root >= 0) text << ", to rank " << root;
  }
  text << ')';
  return text.str();
}

}  // namespace switchml
