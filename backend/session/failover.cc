#include "session/failover.h"

#include <pthread.h>

#include <cstdlib>

#include "base/log.h"

namespace switchml {

namespace {

// What ranks tell each other.
const std::string kLost = "lost ";
const std::string kRound = "round ";

std::string packed(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  }
  return text;
}

uint32_t number_at(const std::string& text, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(text[at + i]);
  return number;
}

std::vector<uint32_t> unpacked(const std::string& text) {
  std::vector<uint32_t> numbers;
  for (size_t at = 0; at + 4 <= text.size(); at += 4) numbers.push_back(number_at(text, at));
  return numbers;
}

// Frames one after the other, each behind its length.
std::string joined(const std::vector<std::vector<uint8_t>>& frames) {
  std::string text;
  for (const std::vector<uint8_t>& frame : frames) {
    text += packed({static_cast<uint32_t>(frame.size())});
    text.append(frame.begin(), frame.end());
  }
  return text;
}

std::vector<std::vector<uint8_t>> split(const std::string& text) {
  std::vector<std::vector<uint8_t>> frames;
  for (size_t at = 0; at + 4 <= text.size();) {
    const size_t size = number_at(text, at);
    at += 4;
    if (text.size() - at < size) break;
    frames.emplace_back(text.begin() + static_cast<std::ptrdiff_t>(at),
                        text.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return frames;
}

}  // namespace

Failover::Failover(Engine& engine, Rendezvous& store, FailoverOptions options)
    : engine_(engine),
      store_(store),
      options_(std::move(options)),
      roster_(std::make_shared<Roster>(options_.group.size)) {}

Failover::~Failover() {
  stopping_ = true;
  std::thread running;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running.swap(thread_);
  }
  if (running.joinable()) running.join();
}

void Failover::begin(const std::string& why) { begin(why, false); }

void Failover::begin(const std::string& why, bool told) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ || !why_.empty()) return;
  why_ = why;
  if (!told && options_.tell) options_.tell(kLost + why);
  thread_ = std::thread([this] { run(); });
}

void Failover::run() {
  pthread_setname_np(pthread_self(), "switchml-move");
  SWITCHML_LOG(kWarning) << options_.group.name << ": " << why_ << "; the ranks go on without it, over Gloo";
  const Status status = move();
  if (!status.ok()) engine_.fail(Status(status.code(), why_ + "; and could not go on without it: " + status.message()));
}

Status Failover::move() {
  if (Status status = wait_for_all(catch_up()); !status.ok()) return status;
  auto reducer = options_.make_reducer();
  if (!reducer.ok()) return reducer.status();
  make_detour(std::move(reducer.value()));
  Route route = options_.session;
  route.lease = std::chrono::hours(24 * 365);
  route.controlled = true;  // there is nobody to ask
  route.switch_name = "none, over Gloo because " + why_;
  engine_.resume(route, detour_->transports());
  moved_ = true;
  return {};
}

void Failover::make_detour(std::unique_ptr<RankReducer> reducer) {
  Detour::Callbacks callbacks;
  callbacks.on_failure = [this](const Status& status) { on_detour_failure(status); };
  callbacks.tell_round = [this](uint64_t number) {
    if (options_.tell) options_.tell(kRound + std::to_string(number));
  };
  detour_ = std::make_unique<Detour>(std::move(reducer), options_.session, roster_, std::move(callbacks));
}

// Gloo notices a dead rank at once and does not say which; who watches over the ranks will, in a moment.
void Failover::on_detour_failure(const Status& status) {
  constexpr Duration kGrace = seconds(2);
  const Time end = monotonic_now() + kGrace;
  while (engine_.status().ok() && !stopping_ && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(10));
  engine_.fail(status);
}

void Failover::heard(int rank, const std::string& text) {
  if (text.compare(0, kLost.size(), kLost) == 0) begin(text.substr(kLost.size()), true);
  if (text.compare(0, kRound.size(), kRound) == 0) {
    roster_->waits(rank, std::strtoull(text.c_str() + kRound.size(), nullptr, 10));
  }
}

Status Failover::catch_up() {
  auto made = plan();
  return made.ok() ? take_over(made.value()) : made.status();
}

Result<Catchup> Failover::plan() {
  const std::vector<uint32_t> mine = engine_.suspend();
  if (Status status = say("state", packed(mine)); !status.ok()) return status;
  std::vector<std::vector<uint32_t>> states;
  for (int rank = 0; rank < options_.group.size; ++rank) {
    auto text = hear("state", rank);
    if (!text.ok()) return text.status();
    states.push_back(unpacked(text.value()));
    if (states.back().size() == mine.size()) continue;
    return Status(Code::kMismatch, "rank " + std::to_string(rank) + " has another number of slots");
  }
  Catchup plan(states);
  if (!plan.possible()) return Status(Code::kMismatch, "ranks are more than one use of a slot apart");
  return plan;
}

Status Failover::take_over(const Catchup& plan) {
  const int self = options_.group.rank;
  if (const auto& slots = plan.gives(self); !slots.empty()) {
    std::vector<std::vector<uint8_t>> frames;
    frames.reserve(slots.size());
    for (const int slot : slots) frames.push_back(engine_.last_result(slot));
    if (Status status = say("kept", joined(frames)); !status.ok()) return status;
  }
  for (const int holder : plan.takes_from(self)) {
    auto text = hear("kept", holder);
    if (!text.ok()) return text.status();
    engine_.supply(split(text.value()));
  }
  // Each was judged by slot and witness: what was refused is still missing.
  const std::vector<uint32_t> now = engine_.suspend();
  for (int slot = 0; slot < static_cast<int>(now.size()); ++slot) {
    if (!plan.lacks(self, slot) || now[static_cast<size_t>(slot)] == plan.last(slot)) continue;
    return {Code::kMismatch, "rank " + std::to_string(self) + " does not accept the result of slot " +
                                 std::to_string(slot) + " that another rank has kept"};
  }
  return {};
}

Status Failover::wait_for_all(const Status& mine) {
  if (Status status = say("ready", mine.ok() ? "ok" : mine.message()); !status.ok()) return status;
  if (!mine.ok()) return mine;
  for (int rank = 0; rank < options_.group.size; ++rank) {
    auto said = hear("ready", rank);
    if (!said.ok()) return said.status();
    if (said.value() != "ok") return {Code::kUnavailable, said.value()};
  }
  return {};
}

Status Failover::say(const std::string& what, const std::string& text) {
  return store_.set("switchml/move/" + what + "/" + std::to_string(options_.group.rank), text);
}

Result<std::string> Failover::hear(const std::string& what, int rank) {
  constexpr Duration kGlance = milliseconds(100);
  constexpr int kPatientGlances = 10;
  const std::string name = "rank " + std::to_string(rank);
  for (int glances = 1;; ++glances) {
    auto text = store_.get("switchml/move/" + what + "/" + std::to_string(rank), monotonic_now() + kGlance);
    if (text.ok() || text.status().code() != Code::kTimeout) return text;
    if (stopping_) return Status(Code::kAborted, "the process group was shut down");
    if (!engine_.status().ok()) return engine_.status();
    if (roster_->has_left(rank))
      return Status(Code::kUnavailable, name + " (left the session) cannot go on with the others");
    // A rank that is stopped or busy is waited for, as at a switch; calls have their own timeouts.
    if (glances == kPatientGlances) {
      engine_.wait_for("the switch was lost (" + why_ + "), and " + name +
                       " has not come to go on without it: is that rank stopped?");
    }
  }
}

}  // namespace switchml
