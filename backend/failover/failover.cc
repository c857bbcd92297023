#include "failover/failover.h"

#include <pthread.h>

#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "failover/state_transfer.h"

namespace switchml {

namespace {

constexpr Duration kOfferTime = seconds(1);  // a switch answers at once; a controller asks its switches first
constexpr Duration kControllerTime = seconds(3);
constexpr Duration kPatience = seconds(1);  // before a message names the rank that is waited for
constexpr Duration kFarewell = seconds(2);

Status cannot_go_without(const std::string& why, const Status& reason) {
  return {reason.code(), why + "; and could not go on without it: " + reason.message()};
}

}  // namespace

Failover::Failover(SwitchEngine& engine, Rendezvous& store, FailoverOptions options)
    : engine_(engine),
      options_(std::move(options)),
      channel_(store, options_.group.rank, [this](int rank, Duration waited) { return may_wait(rank, waited); }),
      session_(options_.session) {}

Failover::~Failover() { stop(); }

void Failover::await_others() {
  constexpr Duration kGlance = milliseconds(20);
  std::unique_lock<std::mutex> lock(mutex_);
  if (closing_ || news_.at_the_end(options_.group.rank)) return;
  news_.hear(options_.group.rank, News::end());
  if (options_.tell) options_.tell(News::end());
  const Time end = monotonic_now() + options_.config.failure_timeout;
  const auto all = static_cast<size_t>(options_.group.size);
  while (news_.at_the_end() < all && phase_ != Phase::kBroken && engine_.status().ok() && monotonic_now() < end) {
    changed_.wait_for(lock, kGlance);
  }
}

void Failover::stop() {
  std::thread running;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kFarewell, [this] { return !transferring_; });
    stopping_ = true;
    running.swap(thread_);
  }
  if (running.joinable()) running.join();
  standby_.reset();
}

SessionParameters Failover::session() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return session_;
}

int Failover::moves() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return moves_;
}

// ---- what happens ----

void Failover::begin(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) return;
  if (phase_ == Phase::kStandby) engine_.fail(Status(Code::kUnavailable, why));
  if (phase_ != Phase::kAtSwitch) return;
  const std::string text = News::loss(moves_, why);
  if (options_.tell) options_.tell(text);
  news_.hear(options_.group.rank, text);
  leave_if_lost();
}

void Failover::heard(int rank, const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear(rank, text);
  leave_if_lost();
  changed_.notify_all();
}

void Failover::heard_leave(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear_leave(rank);
  changed_.notify_all();
}

void Failover::leave_if_lost() {
  const auto why = news_.loss_after(moves_);
  if (!why || phase_ != Phase::kAtSwitch || closing_) return;
  phase_ = Phase::kLost;
  try {
    if (!thread_.joinable()) thread_ = make_thread("the way on without a switch", [this] { run(); });
  } catch (const NoThread& none) {
    phase_ = Phase::kBroken;
    engine_.fail(cannot_go_without(*why, none.status()));
  }
  changed_.notify_all();
}

void Failover::run() {
  pthread_setname_np(pthread_self(), "switchml-move");
  while (const Step step = next_step()) (this->*step)();
}

// Null: there is nothing left to do.
Failover::Step Failover::next_step() {
  const bool offers = options_.group.rank == 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (closing_ || phase_ == Phase::kBroken || !engine_.status().ok()) return nullptr;
    const bool offered = phase_ == Phase::kStandby && news_.offered() > taken_;
    if (phase_ == Phase::kLost || offered) {
      transferring_ = true;
      if (offered) taken_ = news_.offered();
      return offered ? &Failover::accept_offer : &Failover::leave_switch;
    }
    if (phase_ != Phase::kStandby || !offers) {
      changed_.wait(lock);
      continue;
    }
    const Time now = monotonic_now();
    if (now >= pace_.next()) return &Failover::offer;
    changed_.wait_for(lock, pace_.next() - now);
  }
}

// ---- away from a switch ----

void Failover::leave_switch() {
  std::string why;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    why = news_.loss_after(moves_).value_or("");
  }
  SWITCHML_LOG(kWarning) << options_.group.name << ": " << why << "; the hosts add in its place";
  pace_.lost(monotonic_now());
  const Status status = go_without(why);
  if (status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kBroken;
  }
  engine_.fail(cannot_go_without(why, status));
}

Status Failover::go_without(const std::string& why) {
  const int number = moves();
  const Status status = transfer("the switch was lost (" + why + ")");
  if (!end_transfer()) return {Code::kAborted, "the process group was shut down"};
  if (!status.ok()) return status;
  standby_ = std::make_unique<Standby>(options_.config, options_.group, options_.leaders, session(), channel_, number);
  if (const Status started = standby_->start(); !started.ok()) return started;
  Route route = standby_->route();
  route.switch_name = "of the hosts, in the place of the one that was lost (" + why + "),";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kStandby;
    ++moves_;  // before a call can end that needs it no more
  }
  engine_.resume(route, standby_->take_transports());
  pace_.wait(monotonic_now());
  return {};
}

// ---- and back ----

void Failover::offer() {
  const int attempt = taken_ + 1;
  Failback failback(options_.config, options_.group, session(), channel_, options_.controller, options_.own);
  const Duration patience = options_.session.controlled ? kControllerTime : kOfferTime;
  const Status status = failback.offer(attempt, monotonic_now() + patience);
  pace_.wait(monotonic_now());
  if (!status.ok()) {
    // It is there, and will hardly be another one soon.
    if (status.code() == Code::kMismatch) pace_.wait_longer(monotonic_now());
    if (status.code() != Code::kUnavailable) SWITCHML_LOG(kInfo) << options_.group.name << ": " << status.message();
    return;
  }
  const std::string text = News::offer(attempt);
  if (options_.tell) options_.tell(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear(options_.group.rank, text);
}

void Failover::accept_offer() {
  fail_back();
  end_transfer();
}

void Failover::fail_back() {
  Failback failback(options_.config, options_.group, session(), channel_, options_.controller, options_.own);
  auto found = failback.take(taken_);
  if (!found.ok()) {
    SWITCHML_LOG(kInfo) << options_.group.name << ": no return to the switch yet: " << found.status().message();
    pace_.wait_longer(monotonic_now());
    return;
  }
  const std::string name = found->session.switch_name;
  if (const Status status = transfer("the group returns to the switch " + name); !status.ok()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      phase_ = Phase::kBroken;
      session_ = found->session;
    }
    engine_.fail(Status(status.code(), "could not return to the switch " + name + ": " + status.message()));
    return;
  }
  arrive(std::move(found.value()));
  SWITCHML_LOG(kWarning) << options_.group.name << ": the switch " << name << " is back, and the ranks use it again";
}

void Failover::arrive(Failback::Found found) {
  const Route route = found.session;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kAtSwitch;
    session_ = found.session;
    ++moves_;
    leave_if_lost();  // another rank may have been here, and found this switch lost too
  }
  pace_.returned(monotonic_now());
  engine_.resume(route, std::move(found.transports));
  standby_.reset();
}

// ---- both ways ----

Status Failover::transfer(const std::string& purpose) {
  purpose_ = purpose;
  const Status status = StateTransfer(engine_, channel_, options_.group, moves()).run();
  purpose_.clear();
  return status;
}

bool Failover::end_transfer() {
  const std::lock_guard<std::mutex> lock(mutex_);
  transferring_ = false;
  changed_.notify_all();
  return !closing_;
}

Status Failover::may_wait(int rank, Duration waited) {
  const std::string name = "rank " + std::to_string(rank);
  if (stopping_) return {Code::kAborted, "the process group was shut down"};
  if (Status status = engine_.status(); !status.ok()) return status;
  if (std::lock_guard<std::mutex> lock(mutex_); news_.has_left(rank)) {
    return {Code::kUnavailable, name + " (left the session) cannot go on with the others"};
  }
  if (waited >= kPatience && !purpose_.empty()) {
    engine_.set_waiting_for(purpose_ + ", and " + name +
                            " has not come to go on with the others: is that rank stopped?");
  }
  return {};
}

}  // namespace switchml
