#include "c10d/monitored_barrier.h"

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace switchml {
namespace {

/// What the others allow rank 0 beyond the timeout, to be heard after it has waited in full.
constexpr milliseconds kGrace{1000};
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
constexpr Duration kFirstPause = microseconds(200);
constexpr Duration kLongestPause = milliseconds(10);

const char* const kKeys = "monitored_barrier/";

Time after(milliseconds timeout) { return timeout >= kForever ? kNever : monotonic_now() + timeout; }

std::string arrival_key(int rank) { return "arrived/" + std::to_string(rank); }

std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

/// The wording is that of PyTorch's Gloo backend, which scripts and PyTorch's tests look for.
std::string report(const std::vector<int>& missing, const std::vector<int>& gone, milliseconds timeout, bool all) {
  std::string text = "[Rank 0]: ";
  const std::string limit = std::to_string(timeout.count()) + " ms";
  if (timeout.count() == 0) text += "Rank 0 timed out in monitoredBarrier after 0 ms: ";
  text += (all ? "Ranks " : "Rank ") + joined(missing) + " failed to pass monitoredBarrier in " + limit;
  if (!gone.empty()) text += "; rank " + joined(gone) + " had come and given up waiting before rank 0 came";
  return text;
}

}  // namespace

MonitoredBarrier::MonitoredBarrier(std::shared_ptr<Rendezvous> store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size) {}

Status MonitoredBarrier::pass(milliseconds timeout, bool wait_all_ranks) {
  const std::unique_lock<std::mutex> alone(running_, std::try_to_lock);
  if (!alone.owns_lock()) {
    return {Code::kInvalidArgument, "a monitored barrier of this group is under way on another thread; allowed: one"};
  }
  ++call_;
  try {
    return rank_ == 0 ? end_lead(lead(timeout, wait_all_ranks)) : end_follow(follow(timeout));
  } catch (...) {
    const Status ended(Code::kAborted, "a signal ended the wait of rank " + std::to_string(rank_));
    (void)(rank_ == 0 ? end_lead(ended) : end_follow(ended)).ok();
    throw;
  }
}

Status MonitoredBarrier::end_lead(const Status& outcome) {
  const Status announced = announce(outcome);
  return outcome.ok() ? announced : outcome;
}

Status MonitoredBarrier::end_follow(const Status& outcome) {
  if (!outcome.ok()) (void)arrive(" gone").ok();  // rank 0 need not count on this rank; that may be known already
  return outcome;
}

void MonitoredBarrier::interrupt(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (interrupted_.ok()) interrupted_ = Status(Code::kAborted, reason);
}

// ---- rank 0 ----

// One rank after the other up to one deadline: those behind a missing rank are looked at once when it has passed.
Status MonitoredBarrier::lead(milliseconds timeout, bool wait_all_ranks) {
  const Time deadline = after(timeout);
  const Status open = store_->set(std::string(kKeys) + "opened", std::to_string(call_));
  if (!open.ok()) return open;
  std::vector<int> missing;
  std::vector<int> gone;
  for (int rank = 1; rank < size_ && (wait_all_ranks || missing.empty()); ++rank) {
    Arrival seen = Arrival::kNotYet;
    const Result<bool> there = until(deadline, [&]() -> Result<bool> {
      const Result<Arrival> now = arrival(rank);
      if (!now.ok()) return now.status();
      seen = now.value();
      return seen != Arrival::kNotYet;
    });
    if (!there.ok()) return there.status();
    if (seen != Arrival::kCame) missing.push_back(rank);
    if (seen == Arrival::kGone) gone.push_back(rank);
  }
  if (!missing.empty()) return {Code::kTimeout, report(missing, gone, timeout, wait_all_ranks)};
  passed_ = call_;
  return {};
}

Status MonitoredBarrier::announce(const Status& outcome) {
  std::string text = std::to_string(call_) + " " + std::to_string(passed_);
  if (!outcome.ok()) text += " " + outcome.message();
  return store_->set(std::string(kKeys) + "verdict", text);
}

Result<MonitoredBarrier::Arrival> MonitoredBarrier::arrival(int rank) const {
  const Result<std::string> text = peek(arrival_key(rank));
  if (!text.ok()) return text.status();
  uint64_t call = 0;
  std::string gone;
  std::istringstream(text.value()) >> call >> gone;
  if (call < call_) return Arrival::kNotYet;
  // A rank goes on to a later call only when it has given this one up: nothing was decided here yet.
  return call == call_ && gone.empty() ? Arrival::kCame : Arrival::kGone;
}

// ---- the others ----

Status MonitoredBarrier::follow(milliseconds timeout) {
  const std::string limit = std::to_string(timeout.count()) + " ms";
  const Status came = arrive("");
  if (!came.ok()) return came;
  Result<bool> open = until(after(timeout), [this] { return opened(); });
  if (open.ok() && !open.value()) {
    const Status gave_up = arrive(" gone");
    if (!gave_up.ok()) return gave_up;
    open = opened();  // it may have come in between, and decides then
  }
  if (!open.ok()) return open.status();
  if (!open.value()) return refusal("Rank 0 did not come in " + limit);

  Verdict seen;
  const Result<bool> decided = until(after(std::min(timeout, kForever) + kGrace), [&]() -> Result<bool> {
    Result<Verdict> now = verdict();
    if (!now.ok()) return now.status();
    seen = std::move(now.value());
    return seen.call >= call_;
  });
  if (!decided.ok()) return decided.status();
  if (!decided.value()) return refusal("Rank 0 came, but said nothing in " + limit);
  // Rank 0 passes no later call without this rank.
  return seen.passed >= call_ ? Status() : refusal("Rank 0 said: " + seen.why);
}

Status MonitoredBarrier::arrive(const std::string& suffix) {
  return store_->set(kKeys + arrival_key(rank_), std::to_string(call_) + suffix);
}

Status MonitoredBarrier::refusal(const std::string& why) const {
  return {Code::kTimeout, "Rank " + std::to_string(rank_) +
                              " successfully reached monitoredBarrier, but received errors while waiting for "
                              "send/recv from rank 0. Please check rank 0 logs for faulty rank. " +
                              why};
}

Result<bool> MonitoredBarrier::opened() const {
  const Result<std::string> text = peek("opened");
  if (!text.ok()) return text.status();
  uint64_t call = 0;
  std::istringstream(text.value()) >> call;
  return call >= call_;
}

Result<MonitoredBarrier::Verdict> MonitoredBarrier::verdict() const {
  const Result<std::string> text = peek("verdict");
  if (!text.ok()) return text.status();
  Verdict result;
  std::istringstream stream(text.value());
  stream >> result.call >> result.passed >> std::ws;
  std::getline(stream, result.why, '\0');
  return result;
}

// ---- both ----

Result<std::string> MonitoredBarrier::peek(const std::string& key) const {
  Result<std::string> value = store_->get(kKeys + key, monotonic_now());
  if (!value.ok() && value.status().code() == Code::kTimeout) return std::string();
  return value;
}

// Polls: the store's own wait blocks its other users, and cannot be interrupted.
Result<bool> MonitoredBarrier::until(Time deadline, const std::function<Result<bool>()>& look) const {
  Duration pause = kFirstPause;
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!interrupted_.ok()) return interrupted_;
    }
    // The clock first: what came in time counts, even if this thread was not scheduled for a while.
    const Time now = monotonic_now();
    Result<bool> seen = look();
    if (!seen.ok() || seen.value() || now >= deadline) return seen;
    check_interruption();
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline - now));
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace switchml
