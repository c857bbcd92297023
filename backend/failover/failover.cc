#include "failover/failover.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "failover/state_transfer.h"
#include "failover/vote.h"

namespace switchml {

namespace {

constexpr Duration kOfferTime = seconds(1);  // a switch answers at once; a controller asks its switches first
constexpr Duration kControllerTime = seconds(3);
constexpr Duration kPatience = seconds(1);  // before a message names the rank that is waited for
constexpr Duration kFarewell = seconds(2);
constexpr Duration kLeaveTime = milliseconds(200);

Status cannot_go_without(const std::string& why, const Status& reason) {
  return {reason.code(), why + "; and could not go on without it: " + reason.message()};
}

std::string written(const std::vector<uint32_t>& weights) {
  std::string text;
  for (const uint32_t weight : weights) text += (text.empty() ? "" : " ") + std::to_string(weight);
  return text;
}

/// None: they are not allowed.
std::vector<uint32_t> read_weights(const std::string& text) {
  std::istringstream words(text);
  std::vector<uint32_t> weights{std::istream_iterator<uint32_t>(words), std::istream_iterator<uint32_t>()};
  const bool allowed =
      words.eof() && std::all_of(weights.begin(), weights.end(), [](uint32_t w) { return w > 0 && w <= kMaxWeight; });
  return allowed ? weights : std::vector<uint32_t>();
}

/// The highest number of collectives that a rank has submitted.
Blob latest(const std::vector<Blob>& said) {
  uint64_t from = 0;
  for (const Blob& one : said) {
    uint64_t number = 0;
    if (!one.number("submitted", UINT64_MAX, &number)) {
      return Blob::failure(
          Status(Code::kMismatch, "a rank has said no number: install the same switchml on all ranks"));
    }
    from = std::max(from, number);
  }
  Blob blob;
  blob.set("from", from);
  return blob;
}

}  // namespace

Failover::Failover(SwitchEngine& engine, Rendezvous& store, FailoverOptions options)
    : engine_(engine),
      streams_(engine.share(options.share.number)),
      options_(std::move(options)),
      channel_(
          store, options_.group.rank, [this](int rank, Duration waited) { return may_wait(rank, waited); },
          options_.share.number == 0 ? "" : "share/" + std::to_string(options_.share.number) + "/"),
      session_(options_.session),
      weights_(options_.weights) {}

Failover::~Failover() { stop(); }

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

bool Failover::moved() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return moved_;
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
  if (news_.offered() > taken_) start_thread("the session moves");
  changed_.notify_all();
}

void Failover::follow(uint64_t tree_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (planned_ == tree_id) return;
  planned_ = tree_id;
  eager_ = true;
  start_thread("its share is planned anew");
  changed_.notify_all();
}

void Failover::share_out(const std::vector<uint32_t>& weights) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wanted_weights_ = weights == weights_ ? std::vector<uint32_t>() : weights;
  if (wanted_weights_.empty()) return;
  start_thread("its shares are planned anew");
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
  start_thread(*why);
  changed_.notify_all();
}

void Failover::start_thread(const std::string& why) {
  if (thread_.joinable() || closing_) return;
  try {
    thread_ = make_thread("the way to another switch", [this] { run(); });
  } catch (const NoThread& none) {
    phase_ = Phase::kBroken;
    engine_.fail(cannot_go_without(why, none.status()));
  }
}

void Failover::run() {
  pthread_setname_np(pthread_self(), "switchml-move");
  while (const Step step = next_step()) (this->*step)();
}

// Null: there is nothing left to do.
Failover::Step Failover::next_step() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (closing_ || phase_ == Phase::kBroken || !engine_.status().ok()) return nullptr;
    const bool lost = phase_ == Phase::kLost;
    if (lost || news_.offered() > taken_) {
      transferring_ = true;
      taken_ = std::max(taken_, news_.offered());  // If this one is lost, others do without this rank's vote.
      return lost ? &Failover::leave_switch : &Failover::accept_offer;
    }
    const Step step = offer_wanted();
    if (step == nullptr) {
      changed_.wait(lock);
      continue;
    }
    const Time now = monotonic_now();
    if (now >= pace_.next() || eager_) {
      eager_ = false;
      return step;
    }
    changed_.wait_for(lock, pace_.next() - now);
  }
}

Failover::Step Failover::offer_wanted() const {
  if (options_.group.rank != 0) return nullptr;
  if (!wanted_weights_.empty()) return &Failover::offer_weights;
  const bool elsewhere = planned_ != 0 && planned_ != session_.tree_id;
  return phase_ == Phase::kStandby || elsewhere ? &Failover::offer : nullptr;
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
    moved_ = true;
    ++moves_;  // before a call can end that needs it no more
  }
  streams_.resume(route, standby_->take_transports());
  pace_.wait(monotonic_now());
  return {};
}

// ---- and back, or to another one ----

Failback Failover::failback() {
  return {options_.config, options_.group, session(), channel_, options_.controller, options_.own, options_.share};
}

void Failover::offer() {
  const int attempt = taken_ + 1;
  const Duration patience = options_.session.controlled ? kControllerTime : kOfferTime;
  const Status status = failback().offer(attempt, monotonic_now() + patience);
  pace_.wait(monotonic_now());
  if (status.ok()) {
    say_offer(attempt);
    return;
  }
  // It is there, and will hardly be another one soon.
  if (status.code() == Code::kMismatch) pace_.wait_longer(monotonic_now());
  if (status.code() != Code::kUnavailable) SWITCHML_LOG(kInfo) << options_.group.name << ": " << status.message();
}

void Failover::offer_weights() {
  Blob offer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    offer.set("weights", written(wanted_weights_));
  }
  const int attempt = taken_ + 1;
  pace_.wait(monotonic_now());
  if (channel_.say_blob(Failback::offer_topic(attempt), offer).ok()) say_offer(attempt);
}

void Failover::say_offer(int attempt) {
  const std::string text = News::offer(attempt);
  if (options_.tell) options_.tell(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  news_.hear(options_.group.rank, text);
}

void Failover::accept_offer() {
  const auto offer = channel_.hear_blob(Failback::offer_topic(taken_), 0);
  if (offer.ok()) {
    if (offer->text("weights").empty()) {
      fail_back();
    } else {
      take_weights(offer.value());
    }
  }
  end_transfer();
}

// Each says how many collectives it has shared out, and shares out no more until all know the first one that none has.
void Failover::take_weights(const Blob& offer) {
  purpose_ = "the shares of the switches change";
  voting_ = true;
  const std::vector<uint32_t> weights = read_weights(offer.text("weights"));
  Blob mine;
  mine.set("submitted", engine_.hold());
  const bool fit = weights.size() == options_.share.of;
  const auto from =
      vote(channel_, options_.group, Failback::vote_topic(taken_),
           fit ? Result<Blob>(mine) : Result<Blob>(Status(Code::kMismatch, "offered weights do not fit")), latest);
  voting_ = false;
  purpose_.clear();
  uint64_t number = 0;
  const bool agreed = from.ok() && from->number("from", UINT64_MAX, &number);
  engine_.set_weights(number, agreed ? weights : std::vector<uint32_t>());
  if (!agreed) {
    SWITCHML_LOG(kInfo) << options_.group.name << ": shares stay as they are: " << from.status().message();
    return;
  }
  SWITCHML_LOG(kInfo) << options_.group.name << ": its shares are " << offer.text("weights") << " from now on";
  const std::lock_guard<std::mutex> lock(mutex_);
  weights_ = weights;
  if (wanted_weights_ == weights_) wanted_weights_.clear();
}

void Failover::fail_back() {
  voting_ = true;
  auto found = failback().take(taken_);
  voting_ = false;
  const bool returns = moved();
  if (!found.ok()) {
    SWITCHML_LOG(kInfo) << options_.group.name << ": no " << (returns ? "return to the" : "move to another")
                        << " switch yet: " << found.status().message();
    pace_.wait_longer(monotonic_now());
    return;
  }
  const std::string to = (returns ? "return to the switch " : "move to the switch ") + found->session.switch_name;
  if (const Status status = transfer("the ranks " + to); !status.ok()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      phase_ = Phase::kBroken;
      session_ = found->session;
    }
    engine_.fail(Status(status.code(), "could not " + to + ": " + status.message()));
    return;
  }
  arrive(std::move(found.value()));
  if (returns) {
    SWITCHML_LOG(kWarning) << options_.group.name << ": the ranks " << to;
  } else {
    SWITCHML_LOG(kInfo) << options_.group.name << ": the ranks " << to << ", as planned";
  }
}

void Failover::arrive(Failback::Found found) {
  const Route route = found.session;
  std::optional<SessionParameters> before;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kAtSwitch;
    if (!moved_) before = session_;
    session_ = found.session;
    moved_ = false;
    ++moves_;
    leave_if_lost();  // another rank may have been here, and found this switch lost too
  }
  pace_.returned(monotonic_now());
  streams_.resume(route, std::move(found.transports));
  standby_.reset();
  if (before) leave({*before}, monotonic_now() + kLeaveTime);
}

// ---- both ways ----

Status Failover::transfer(const std::string& purpose) {
  purpose_ = purpose;
  const Status status = StateTransfer(streams_, channel_, options_.group, moves()).run();
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
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (news_.has_left(rank)) {
      return {Code::kUnavailable, name + " (left the session) cannot go on with the others"};
    }
    // A rank that has found that first gives no vote.
    if (voting_ && options_.group.rank == 0 && news_.loss_after(moves_)) {
      return {Code::kUnavailable, "the switch was lost meanwhile"};
    }
  }
  if (purpose_.empty()) return {};
  const std::string why = purpose_ + ", and " + name + " has not come to go on with the others: is that rank stopped?";
  if (voting_ && engine_.held_until() <= monotonic_now()) engine_.fail(Status(Code::kTimeout, why));
  if (waited >= kPatience && !voting_) streams_.set_waiting_for(why);
  return {};
}

}  // namespace switchml
