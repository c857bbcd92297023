#include "failover/failover.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "failover/state_transfer.h"

namespace switchml {

namespace {

// What ranks tell each other: a word, a number, and to the first a text.
const std::string kLost = "lost ";  // after so many moves, the switch is, because
const std::string kBack = "back ";  // attempt, is offered
const std::string kEnd = "end";     // of calls

constexpr Duration kFirstPause = seconds(1);  // between attempts to return
constexpr Duration kLongestPause = seconds(60);
constexpr Duration kSteady = seconds(60);    // a switch that is lost again sooner is returned to later
constexpr Duration kOfferTime = seconds(1);  // a switch answers at once; a controller asks its switches first
constexpr Duration kControllerTime = seconds(3);
constexpr Duration kPatience = seconds(1);  // before a message names the rank that is waited for
constexpr Duration kFarewell = seconds(2);

bool begins_with(const std::string& text, const std::string& word) { return text.compare(0, word.size(), word) == 0; }

uint64_t number_behind(const std::string& text, const std::string& word) {
  return std::strtoull(text.c_str() + word.size(), nullptr, 10);
}

// Behind word and number.
std::string rest_of(const std::string& text, const std::string& word) {
  const size_t blank = text.find(' ', word.size());
  return blank == std::string::npos ? std::string() : text.substr(blank + 1);
}

Status cannot_go_without(const std::string& why, const Status& reason) {
  return {reason.code(), why + "; and could not go on without it: " + reason.message()};
}

}  // namespace

Failover::Failover(SwitchEngine& engine, Rendezvous& store, FailoverOptions options)
    : engine_(engine),
      options_(std::move(options)),
      channel_(store, options_.group.rank, [this](int rank, Duration waited) { return may_wait(rank, waited); }),
      session_(options_.session),
      pause_(kFirstPause) {}

Failover::~Failover() { stop(); }

void Failover::await_others() {
  constexpr Duration kGlance = milliseconds(20);
  std::unique_lock<std::mutex> lock(mutex_);
  if (closing_ || at_the_end_.count(options_.group.rank) != 0) return;
  at_the_end_.insert(options_.group.rank);
  if (options_.tell) options_.tell(kEnd);
  const Time end = monotonic_now() + options_.config.failure_timeout;
  const auto all = static_cast<size_t>(options_.group.size);
  while (at_the_end_.size() < all && phase_ != Phase::kBroken && engine_.status().ok() && monotonic_now() < end) {
    changed_.wait_for(lock, kGlance);
  }
}

void Failover::stop() {
  std::thread running;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kFarewell, [this] { return !handing_over_; });
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

std::string Failover::why() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return why_;
}

// ---- what happens ----

void Failover::begin(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) return;
  if (phase_ == Phase::kStandby) engine_.fail(Status(Code::kUnavailable, why));
  if (phase_ != Phase::kAtSwitch) return;
  if (options_.tell) options_.tell(kLost + std::to_string(moves_) + " " + why);
  lose(why);
}

void Failover::lose(const std::string& why) {
  phase_ = Phase::kLost;
  why_ = why;
  try {
    if (!thread_.joinable()) thread_ = make_thread("the way on without a switch", [this] { run(); });
  } catch (const NoThread& none) {
    phase_ = Phase::kBroken;
    engine_.fail(cannot_go_without(why, none.status()));
  }
  changed_.notify_all();
}

void Failover::heard_leave(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.insert(rank);
  at_the_end_.insert(rank);
  changed_.notify_all();
}

void Failover::heard(int rank, const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (text == kEnd) {
    at_the_end_.insert(rank);
    changed_.notify_all();
  }
  if (begins_with(text, kLost)) {
    const auto moves = static_cast<int>(number_behind(text, kLost));
    const std::string why = rest_of(text, kLost);
    if (moves > moves_) later_[moves] = why;
    if (moves == moves_ && phase_ == Phase::kAtSwitch && !closing_) lose(why);
  }
  if (begins_with(text, kBack) && rank == 0) {
    offered_ = std::max(offered_, static_cast<int>(number_behind(text, kBack)));
    changed_.notify_all();
  }
}

void Failover::run() {
  pthread_setname_np(pthread_self(), "switchml-move");
  for (;;) {
    switch (next_task()) {
      case Task::kStop: return;
      case Task::kLeaveSwitch: leave_switch(); break;
      case Task::kOffer: offer(); break;
      case Task::kReturn:
        return_to_switch();
        settle();
        break;
    }
  }
}

Failover::Task Failover::next_task() {
  const bool offers = options_.group.rank == 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (closing_ || phase_ == Phase::kBroken || !engine_.status().ok()) return Task::kStop;
    const bool offered = phase_ == Phase::kStandby && offered_ > taken_;
    if (phase_ == Phase::kLost || offered) {
      handing_over_ = true;
      if (offered) taken_ = offered_;
      return offered ? Task::kReturn : Task::kLeaveSwitch;
    }
    if (phase_ != Phase::kStandby || !offers) {
      changed_.wait(lock);
      continue;
    }
    const Time now = monotonic_now();
    if (now >= next_offer_) return Task::kOffer;
    changed_.wait_for(lock, next_offer_ - now);
  }
}

// ---- away from a switch ----

void Failover::leave_switch() {
  SWITCHML_LOG(kWarning) << options_.group.name << ": " << why() << "; the hosts add in its place";
  pause_ = returned_at_ != Time{} && monotonic_now() - returned_at_ < kSteady ? std::min(2 * pause_, kLongestPause)
                                                                              : kFirstPause;
  const Status status = go_without();
  if (status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kBroken;
  }
  engine_.fail(cannot_go_without(why(), status));
}

Status Failover::go_without() {
  const int number = moves();
  const Status status = hand_over("the switch was lost (" + why() + ")");
  if (!settle()) return {Code::kAborted, "the process group was shut down"};
  if (!status.ok()) return status;
  standby_ = std::make_unique<Standby>(options_.config, options_.group, options_.leaders, session(), channel_, number);
  if (const Status started = standby_->start(); !started.ok()) return started;
  Route route = standby_->route();
  route.switch_name = "of the hosts, in the place of the one that was lost (" + why() + "),";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kStandby;
    ++moves_;  // before a call can end that needs it no more
  }
  engine_.resume(route, standby_->take_transports());
  next_offer_ = monotonic_now() + pause_;
  return {};
}

// ---- and back ----

void Failover::postpone_return() {
  pause_ = std::min(2 * pause_, kLongestPause);
  next_offer_ = monotonic_now() + pause_;
}

void Failover::offer() {
  const int attempt = taken_ + 1;
  Failback failback(options_.config, options_.group, session(), channel_, options_.controller, options_.own);
  const Duration patience = options_.session.controlled ? kControllerTime : kOfferTime;
  const Status status = failback.offer(attempt, monotonic_now() + patience);
  next_offer_ = monotonic_now() + pause_;
  if (!status.ok()) {
    if (status.code() == Code::kMismatch) postpone_return();  // it is there, and will hardly be another one soon
    if (status.code() != Code::kUnavailable) SWITCHML_LOG(kInfo) << options_.group.name << ": " << status.message();
    return;
  }
  if (options_.tell) options_.tell(kBack + std::to_string(attempt));
  const std::lock_guard<std::mutex> lock(mutex_);
  offered_ = attempt;
}

void Failover::return_to_switch() {
  Failback failback(options_.config, options_.group, session(), channel_, options_.controller, options_.own);
  auto found = failback.take(taken_);
  if (!found.ok()) {
    SWITCHML_LOG(kInfo) << options_.group.name << ": no return to the switch yet: " << found.status().message();
    postpone_return();
    return;
  }
  const std::string name = found->session.switch_name;
  if (const Status status = hand_over("the group returns to the switch " + name); !status.ok()) {
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
    // Another rank may have been here, and found this switch lost too.
    if (const auto lost = later_.find(moves_); lost != later_.end()) lose(lost->second);
    later_.clear();
  }
  returned_at_ = monotonic_now();
  engine_.resume(route, std::move(found.transports));
  standby_.reset();
}

// ---- both ways ----

Status Failover::hand_over(const std::string& purpose) {
  purpose_ = purpose;
  const Status status = StateTransfer(engine_, channel_, options_.group, moves()).run();
  purpose_.clear();
  return status;
}

bool Failover::settle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  handing_over_ = false;
  changed_.notify_all();
  return !closing_;
}

bool Failover::has_left(int rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return left_.count(rank) != 0;
}

Status Failover::may_wait(int rank, Duration waited) {
  const std::string name = "rank " + std::to_string(rank);
  if (stopping_) return {Code::kAborted, "the process group was shut down"};
  if (Status status = engine_.status(); !status.ok()) return status;
  if (has_left(rank)) return {Code::kUnavailable, name + " (left the session) cannot go on with the others"};
  if (waited >= kPatience && !purpose_.empty()) {
    engine_.set_waiting_for(purpose_ + ", and " + name +
                            " has not come to go on with the others: is that rank stopped?");
  }
  return {};
}

}  // namespace switchml
