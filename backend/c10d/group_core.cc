#include "c10d/group_core.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "base/interruption.h"
#include "c10d/flight_log.h"
#include "c10d/work.h"

namespace switchml {

namespace {
std::vector<uint64_t> completed(std::vector<uint64_t> ranks, int size) {
  for (auto rank = ranks.size(); rank < static_cast<size_t>(size); ++rank) ranks.push_back(rank);
  return ranks;
}

FlightGroup flight_group_of(const GroupInfo& group, const std::vector<uint64_t>& ranks) {
  FlightGroup described;
  described.name = group.name;
  described.ranks = ranks;
  described.rank = group.rank;
  return described;
}
}  // namespace

GroupCore::GroupCore(GroupInfo group, std::vector<uint64_t> global_ranks, const void* world, size_t pinned_limit,
                     bool blocks_hosts)
    : group_(std::make_shared<const GroupInfo>(std::move(group))),
      global_ranks_(completed(std::move(global_ranks), group_->size)),
      world_(world),
      flight_group_(FlightLog::of_process().add_group(flight_group_of(*group_, global_ranks_))),
      pinned_(std::make_shared<PinnedBytes>(pinned_limit)),
      blocks_hosts_(blocks_hosts) {}

std::string call_context(const GroupInfo& group, Call call) {
  return std::string("switchml ") + to_string(call) + " on rank " + std::to_string(group.rank) + " of " +
         std::to_string(group.size) + " (group " + group.name + ")";
}

void GroupCore::start_pool(Call call) {
  if (const Status started = pool_.start(); !started.ok()) throw_status(started, context(call));
}

// In a child a lock may be held for ever, by a thread that only the parent has.
std::shared_ptr<Session> GroupCore::session() const {
  if (inherited()) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  return session_;
}

bool GroupCore::engine_can_exchange() const {
  if (group_->size == 1) return true;
  const std::shared_ptr<Session> held = session();
  return held && held->abilities().exchanges;
}

void GroupCore::set_session(std::shared_ptr<Session> session) {
  const std::lock_guard<std::mutex> lock(mutex_);
  engine_way_.store(session->abilities().transport == "shm" ? Way::kMemory : Way::kSwitch, std::memory_order_relaxed);
  const Abilities& abilities = session->abilities();
  if (group_->live) group_->live->opened(abilities.transport, session->switch_names(), abilities.encrypts);
  session_ = std::move(session);
}

std::shared_ptr<Session> GroupCore::close(const Status& reason) {
  if (group_->live) group_->live->end();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_.ok()) closed_ = reason;
  return std::move(session_);
}

Status GroupCore::closed() const {
  if (inherited()) {
    return {Code::kAborted, "this process was forked from the one that made the group: make another group here"};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

Status GroupCore::health() const {
  const std::shared_ptr<Session> open = session();
  const Status status = closed();
  return status.ok() && open ? open->engine().status() : status;
}

void GroupCore::show_packets() const {
  const std::shared_ptr<Session> open = session();
  if (!open || !group_->live) return;
  const Engine& engine = open->engine();
  LiveCounts counts;
  for (int shard = 0; shard < engine.shards(); ++shard) {
    const WorkerCounters& counters = engine.counters(shard);
    counts.packets_sent += counters.packets_sent.get();
    counts.retransmissions += counters.retransmissions.get();
    counts.repeats_waiting += counters.repeats_waiting.get();
    counts.damaged += counters.results_damaged.get() + counters.witness_failures.get();
  }
  group_->live->count(counts);
}

Status GroupCore::gone_from(const GroupCore& other) const {
  if (world_ == nullptr || other.world_ != world_) return {};
  const std::shared_ptr<Session> open = other.session();
  if (!open) return {};
  for (const auto& [rank, how] : open->gone_ranks()) {
    const uint64_t global = other.global_ranks_.at(static_cast<size_t>(rank));
    const auto here = std::find(global_ranks_.begin(), global_ranks_.end(), global);
    if (here == global_ranks_.end()) continue;
    return {Code::kUnavailable, "rank " + std::to_string(here - global_ranks_.begin()) + " is gone, as group " +
                                    other.group_->name + " knows: " + how};
  }
  return {};
}

void GroupCore::call_failed(const Status& why) {
  if (inherited()) return;
  if (group_->live) group_->live->failed(why.message());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (call_failure_.ok()) call_failure_ = why;
}

Status GroupCore::failure() const {
  if (inherited()) return closed();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!call_failure_.ok()) return call_failure_;
  }
  return health();
}

void GroupCore::after_failure() {
  if (!failure().ok()) abort_hooks_.run();
}

void GroupCore::let_signals_in(const std::string& what) {
  try {
    check_interruption();
  } catch (...) {
    give_up("a signal ended its wait for " + what);
    throw;
  }
}

void GroupCore::give_up(const std::string& why) {
  if (const std::shared_ptr<Session> open = session()) open->give_up(why);
}

Status GroupCore::feed(DeviceCopies& copies, const std::shared_ptr<Session>& session, Time deadline) {
  const auto risen = [&] {
    if (session) session->engine().wake();
  };
  Status status;
  try {
    status = copies.feed(risen, deadline);
  } catch (...) {
    status = Status(Code::kUnavailable, exception_text(std::current_exception()).value_or("an unknown error"));
  }
  if (status.code() == Code::kAborted) return health().ok() ? status : health();
  if (!status.ok()) give_up(status.message());
  return status;
}

std::optional<Duration> GroupCore::ended_for() const {
  const bool lives = health().ok();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lives && !rests_) return std::nullopt;
  if (!ended_at_) ended_at_ = monotonic_now();
  return monotonic_now() - *ended_at_;
}

void GroupCore::rest() {
  const auto set = [this](bool rests) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rests_ = rests;
    ended_at_.reset();
  };
  pool_.rest();
  set(true);
  stager_.rest();
  set(false);
}

std::shared_ptr<DeviceCopies> new_copies(const std::shared_ptr<GroupCore>& core, const c10::Device& device,
                                         const char* call) {
  auto copies =
      std::make_unique<DeviceCopies>(device, call, core->pinned(), [core = core.get()] { return core->ended_for(); });
  const auto settle = [core](DeviceCopies* ended) {
    if (!ended->has_begun()) return delete ended;
    core->stager().post(
        [ended] {
          ended->settle();
          delete ended;
        },
        1);
  };
  return {copies.release(), settle};
}

void GroupCore::begin_operation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++in_flight_;
}

void GroupCore::end_operation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--in_flight_ == 0) landing_.notify_all();
}

bool GroupCore::wait_until_landed(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return landing_.wait_for(lock, limit, [this] { return in_flight_ == 0; });
}

std::string GroupCore::compare_calls(const std::string& mine) {
  std::call_once(compared_, [&] {
    if (const std::shared_ptr<Session> open = session()) comparison_ = open->compare_calls(mine);
  });
  return comparison_;
}

bool CallOrder::pass(std::function<void()> launch, bool holds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (held_.load()) {
    waiting_.push_back({std::move(launch), holds});
    return false;
  }
  holding_ = holds;
  held_ = holds;
  return true;
}

void CallOrder::release() {
  std::unique_lock<std::mutex> lock(mutex_);
  holding_ = false;
  if (std::exchange(launching_, true)) return;
  while (!holding_ && !waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    holding_ = next.holds;
    lock.unlock();
    next.launch();
    lock.lock();
  }
  launching_ = false;
  held_ = holding_;
}

void Outstanding::add(const c10::intrusive_ptr<c10d::Work>& work) {
  std::vector<c10::intrusive_ptr<c10d::Work>> dropped;  // may be the last references: they go after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto over = [&dropped](const WeakWork& weak) {
    auto strong = weak.lock();
    const bool done = !strong || strong->isCompleted();
    if (strong) dropped.push_back(std::move(strong));
    return done;
  };
  // Mostly they complete in order, so that this is all.
  while (!works_.empty() && over(works_.front())) works_.pop_front();
  if (works_.size() >= sweep_at_) {
    works_.erase(std::remove_if(works_.begin(), works_.end(), over), works_.end());
    sweep_at_ = std::max(kSweepAt, 2 * works_.size());
  }
  works_.emplace_back(work);
}

std::vector<Outstanding::WeakWork> Outstanding::all() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {works_.begin(), works_.end()};
}

void Outstanding::clear() {
  std::deque<WeakWork> dropped;  // may be the last references: they go after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  dropped.swap(works_);
}

}  // namespace switchml
