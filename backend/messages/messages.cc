#include "messages/messages.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/thread.h"

namespace switchml {

namespace {

using Sleeper = MessageTransport::Sleeper;

/// Steps of a post find a match, and send what is small. More is for the caller that waits, or the thread.
constexpr int kStepsOfPost = 3;
constexpr int kYieldsBeforeSleep = 20;
constexpr Duration kLongestSleep = std::chrono::hours(1);

}  // namespace

Messages::Messages(std::unique_ptr<MessageTransport> transport, Duration spin)
    : transport_(std::move(transport)), messenger_(*transport_), callers_wait_(spin, kYieldsBeforeSleep) {}

Messages::~Messages() { close(); }

// A thread that steps lets these in.
Messages::Lock Messages::lock() {
  ++waiting_;
  Lock held(mutex_);
  --waiting_;
  return held;
}
void Messages::let_in(Lock& held) {
  if (waiting_ == 0) return;
  held.unlock();
  ::sched_yield();
  held.lock();
}

// ---- what is asked of it ----

void Messages::send(Message message) { post(std::move(message), &Messenger::send); }
void Messages::receive(Message message) { post(std::move(message), &Messenger::receive); }

void Messages::post(Message message, void (Messenger::*give)(Message)) {
  Lock held = lock();
  try {
    if (!stop_ && !thread_.joinable()) thread_ = make_thread("messages", [this] { run(); });
  } catch (const NoThread& none) {
    held.unlock();
    return message.done(none.status(), -1);
  }
  (messenger_.*give)(std::move(message));
  bool more = true;
  for (int i = 0; more && i < kStepsOfPost; ++i) more = step(held);
  // A caller that has taken over may wait for what this one has done, or left.
  if (taken_ || more) transport_->notify();
  hand_over();
}

bool Messages::work_until(const std::function<bool()>& over, Time end) {
  Lock held = lock();
  if (taken_ || stop_) return false;
  taken_ = true;
  transport_->awake();
  IdleWait& wait = callers_wait_.of_this_thread();
  while (!over()) {
    if (step(held)) {
      let_in(held);
      continue;
    }
    const Time now = monotonic_now();
    if (over() || now >= end) break;
    const Time until = std::min(end, messenger_.next_wakeup());
    held.unlock();
    wait_a_moment(wait, until, [&] { return transport_->has_work() || over(); });
    held = lock();
  }
  taken_ = false;
  hand_over();
  told_all_.notify_all();
  return true;
}

void Messages::fail(const Status& status) {
  Lock held = lock();
  told_failure_ = true;
  messenger_.fail(status);
  tell(held);
  transport_->notify();
  hand_over();
}

void Messages::when_failed(std::function<void(const Status&)> callback) {
  const Lock held = lock();
  on_failure_ = std::move(callback);
}

void Messages::close() {
  fail(Status(Code::kAborted, "the process group was shut down"));
  {
    const Lock held = lock();
    stop_ = true;
    transport_->ring_for(Sleeper::kThread);
  }
  if (thread_.joinable()) thread_.join();
  Lock held = lock();
  told_all_.wait(held, [this] { return telling_ == 0 && !taken_; });
  transport_->linger();
}

// ---- what is done ----

/// True if there may be more to do. Not under the lock throughout.
bool Messages::step(Lock& held) {
  const bool more = messenger_.step(monotonic_now());
  tell(held);
  return more;
}

void Messages::tell(Lock& held) {
  std::vector<MessageOutcome> outcomes = messenger_.outcomes();
  const Status status = messenger_.status();
  std::function<void(const Status&)> on_failure;
  if (!status.ok() && !std::exchange(told_failure_, true)) on_failure = on_failure_;
  if (outcomes.empty() && !on_failure) return;
  ++telling_;
  held.unlock();
  if (on_failure) on_failure(status);  // first: a call that ends may ask why
  for (const MessageOutcome& outcome : outcomes) outcome.done(outcome.status, outcome.source);
  outcomes.clear();  // their memory must be freed without the lock
  held.lock();
  if (--telling_ == 0) told_all_.notify_all();
}

template <typename Found>
void Messages::wait_a_moment(IdleWait& wait, Time end, const Found& found) {
  if (wait(found, [] { return false; })) return;
  const uint32_t heard = transport_->doorbell(Sleeper::kCaller);
  transport_->fall_asleep(Sleeper::kCaller);
  if (!found()) transport_->wait_for_bell(Sleeper::kCaller, heard, end - monotonic_now());
  transport_->awake();
  if (found()) wait.slept();
}

// Messages that no caller waits for are the thread's. It sleeps already, and is woken only where there is work.
void Messages::hand_over() {
  if (taken_ || !messenger_.is_busy()) return;
  transport_->hand_to_thread();
  const Time next = messenger_.next_wakeup();
  if (transport_->has_work()) {
    transport_->wake();
  } else if (next < thread_until_) {
    thread_until_ = next;
    transport_->ring_for(Sleeper::kThread);
  }
}

void Messages::run() {
  pthread_setname_np(pthread_self(), "switchml-mail");
  Lock held = lock();
  while (!stop_) {
    const uint32_t heard = transport_->doorbell(Sleeper::kThread);
    const bool mine = !taken_ && messenger_.is_busy();
    if (mine) {
      transport_->awake();
      const bool more = step(held);
      // A caller that took over meanwhile may have gone to sleep before it was told that its message is over.
      if (taken_) transport_->notify();
      if (more) let_in(held);
      if (more || taken_ || stop_) continue;
    }
    const bool waits = mine && messenger_.is_busy();
    thread_until_ = waits ? messenger_.next_wakeup() : kNever;
    if (waits) transport_->fall_asleep(Sleeper::kThread);
    if (waits && transport_->has_work()) continue;
    const Duration patience = thread_until_ == kNever ? kLongestSleep : thread_until_ - monotonic_now();
    held.unlock();
    transport_->wait_for_bell(Sleeper::kThread, heard, patience);
    held = lock();
  }
}

}  // namespace switchml
