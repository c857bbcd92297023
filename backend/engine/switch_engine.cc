#include "engine/switch_engine.h"

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "base/thread.h"
#include "engine/shard_thread.h"
#include "engine/shares.h"
#include "format/task.h"

namespace switchml {

namespace {

using Shards = std::vector<std::shared_ptr<Shard>>;

/// The shards of one session, by number. Each is asked in its thread.
class SessionShards final : public Relocatable {
 public:
  explicit SessionShards(Shards shards) : shards_(std::move(shards)) {}

  std::vector<uint32_t> suspend() override {
    std::vector<uint32_t> all;
    on_each([&all](Shard& shard, Time) {
      shard.suspend();
      const std::vector<uint32_t> accepted = shard.accepted();
      all.insert(all.end(), accepted.begin(), accepted.end());
    });
    return all;
  }

  void set_waiting_for(const std::string& what) override {
    on_each([&what](Shard& shard, Time) { shard.set_waiting_for(what); });
  }

  std::vector<uint8_t> last_result(int slot) override {
    const int per_shard = shards_.front()->slots();
    std::vector<uint8_t> frame;
    in_thread_of(*shards_[static_cast<size_t>(slot / per_shard)],
                 [&](Shard& shard, Time) { frame = shard.last_result(slot % per_shard); });
    return frame;
  }

  void supply(std::vector<std::vector<uint8_t>> frames) override {
    const int per_shard = shards_.front()->slots();
    on_each([&frames, per_shard](Shard& shard, Time now) {
      for (const std::vector<uint8_t>& frame : frames) {
        const bool whole = frame.size() >= wire::kHeaderBytes;
        if (whole && wire::read_header(frame.data()).slot / per_shard == shard.index()) shard.supply(frame, now);
      }
    });
  }

  void resume(const Route& route, std::vector<std::unique_ptr<Transport>> transports) override {
    SWITCHML_ASSERT(transports.empty() || transports.size() == shards_.size());
    on_each([&](Shard& shard, Time now) {
      const auto index = static_cast<size_t>(shard.index());
      shard.resume(route, transports.empty() ? nullptr : std::move(transports[index]), now);
    });
  }

 private:
  // Returns when it is done.
  static void in_thread_of(Shard& shard, const std::function<void(Shard&, Time)>& what) {
    std::promise<void> done;
    shard.post([&](Time now) {
      what(shard, now);
      done.set_value();
    });
    done.get_future().wait();
  }

  // One shard after the other.
  void on_each(const std::function<void(Shard&, Time)>& what) {
    for (const auto& shard : shards_) in_thread_of(*shard, what);
  }

  const Shards shards_;
};

class EngineImpl final : public SwitchEngine {
 public:
  EngineImpl(const EngineOptions& options, std::vector<std::unique_ptr<Transport>> transports)
      : options_(options),
        sessions_(with_others(options.session, options.others)),
        per_session_(transports.size() / sessions_.size()),
        shares_(sessions_, static_cast<int>(per_session_)) {
    SWITCHML_ASSERT(!transports.empty() && transports.size() == per_session_ * sessions_.size());
    SWITCHML_ASSERT(options.first_shard + static_cast<int>(per_session_) <= options.session.shards);
    const Time now = monotonic_now();
    for (size_t i = 0; i < transports.size(); ++i) {
      EngineOptions mine = options_;
      mine.session = sessions_[i / per_session_];
      mine.others.clear();
      mine.share = i / per_session_;
      mine.shares = sessions_.size();
      shards_.push_back(std::make_shared<Shard>(options.first_shard + static_cast<int>(i % per_session_), mine,
                                                std::move(transports[i]), now,
                                                [this](const Status& status) { on_shard_failure(status); }));
    }
    for (auto first = shards_.begin(); first != shards_.end(); first += static_cast<std::ptrdiff_t>(per_session_)) {
      moves_.emplace_back(Shards(first, first + static_cast<std::ptrdiff_t>(per_session_)));
    }
    try {
      const size_t threads = options_.own_threads ? shards_.size() : per_session_;
      for (size_t i = 0; i < threads; ++i) {
        const bool placed = i < options_.processors.size();
        threads_.push_back(std::make_unique<ShardThread>(shards_of_thread(i), options_.spin,
                                                         placed ? options_.processors[i] : std::vector<int>(),
                                                         threads == 1 ? options_.side_work : nullptr));
      }
    } catch (const NoThread&) {
      for (auto& thread : threads_) thread->stop();
      throw;
    }
  }

  ~EngineImpl() override {
    abort("the process group was shut down");
    for (auto& thread : threads_) thread->stop();
  }

  void submit(Collective collective) override {
    SWITCHML_ASSERT(collective.operands() != nullptr || options_.session.exact || options_.session.workers == 1);
    SWITCHML_ASSERT(!std::holds_alternative<Exchange>(collective.kind));
    SWITCHML_ASSERT((options_.session.exact ? exact_can : integer_can)(collective.op, collective.type));
    if (options_.session.workers == 1 && status().ok()) {
      const Status outcome = complete_alone(collective);
      if (collective.done) collective.done(outcome);
      return;
    }
    // One order for all shards: ranks' streams must agree in each of them.
    const std::lock_guard<std::mutex> lock(order_);  // [LANE-3]
    if (holding_) {
      held_.push_back(std::move(collective));
    } else {
      share_out(std::move(collective));
    }
  }

  bool sums_to_float32() const override {
    return std::all_of(sessions_.begin(), sessions_.end(),
                       [](const SessionParameters& session) { return session.sums_to_float32(); });
  }

  void wake() override {
    for (const auto& shard : shards_) shard->wake();
  }

  // Several threads would each need a caller. Of a large tensor the engine and the aggregator do parts at a time, which
  // saves more than the wake-ups cost.
  std::unique_ptr<CallerTurn> begin_turn(size_t bytes) override {
    constexpr size_t kMostOfCaller = 1024 * 1024;
    return threads_.size() == 1 && bytes <= kMostOfCaller ? threads_.front()->begin_turn() : nullptr;
  }

  void abort(const std::string& reason) override {
    const Status status(Code::kAborted, reason);
    remember(status);
    fail_all(status);
  }

  void fail(const Status& status) override { on_shard_failure(status); }

  Relocatable& share(size_t number) override { return moves_[number]; }

  uint64_t hold() override {
    const std::lock_guard<std::mutex> lock(order_);
    holding_ = status().ok();
    return submitted_;
  }

  Time held_until() const override {
    const std::lock_guard<std::mutex> lock(order_);
    Time first = kNever;
    for (const Collective& held : held_) first = std::min(first, held.deadline);
    return first;
  }

  void set_weights(uint64_t from, const std::vector<uint32_t>& weights) override {
    const std::lock_guard<std::mutex> lock(order_);
    SWITCHML_ASSERT(weights.empty() || (weights.size() == sessions_.size() && from >= submitted_));
    if (!weights.empty()) next_weights_[from] = weights;
    holding_ = false;
    while (!held_.empty()) {
      share_out(std::move(held_.front()));
      held_.pop_front();
    }
  }

  Status status() const override {
    const std::lock_guard<std::mutex> lock(status_mutex_);
    return status_;
  }

  int shards() const override { return static_cast<int>(shards_.size()); }
  const WorkerCounters& counters(int shard) const override { return shards_[static_cast<size_t>(shard)]->counters(); }

  size_t memory_bytes() const override {
    size_t bytes = 0;
    for (const auto& shard : shards_) bytes += shard->memory_bytes();
    return bytes;
  }

 private:
  // One of each session, or one. Ranks begin with different ones, so that not all send to the same aggregator at once.
  Shards shards_of_thread(size_t thread) const {
    if (options_.own_threads) return {shards_[thread]};
    Shards all;
    const size_t sessions = sessions_.size();
    for (size_t i = 0; i < sessions; ++i) {
      const size_t session = (static_cast<size_t>(options_.session.worker) + 1 + i) % sessions;
      all.push_back(shards_[session * per_session_ + thread]);
    }
    return all;
  }

  // Under order_.
  void share_out(Collective collective) {
    if (const auto next = next_weights_.find(submitted_); next != next_weights_.end()) {
      shares_.set_weights(next->second);
      next_weights_.erase(next);
    }
    ++submitted_;
    const std::vector<ShardPart> parts = shares_.next(collective);
    auto shared = std::make_shared<SharedCollective>(std::move(collective), static_cast<int>(parts.size()));
    for (const ShardPart& part : parts) shards_[part.shard]->submit(shared, part.range, part.chunk_bytes);
  }

  // What is held fails with the rest.
  void fail_all(const Status& status) {
    for (const auto& shard : shards_) shard->request_failure(status);
    set_weights(0, {});
  }

  bool remember(const Status& status) {
    const std::lock_guard<std::mutex> lock(status_mutex_);
    if (!status_.ok()) return false;
    status_ = status;
    return true;
  }

  // Shards fail together, or some would wait for ever for a collective that the others have given up.
  void on_shard_failure(const Status& status) {
    if (!remember(status)) return;
    fail_all(status);
    if (options_.on_failure) options_.on_failure(status);
  }

  const EngineOptions options_;
  const std::vector<SessionParameters> sessions_;
  const size_t per_session_;  // shards
  mutable std::mutex order_;  // guards what follows, and with it the order of the shards' submissions
  Shares shares_;
  bool holding_ = false;
  std::deque<Collective> held_;
  uint64_t submitted_ = 0;                                  // The held ones are not counted.
  std::map<uint64_t, std::vector<uint32_t>> next_weights_;  // Key: number of the first collective.
  mutable std::mutex status_mutex_;
  Status status_;
  Shards shards_;  // They may call each other until all threads have stopped.
  std::vector<SessionShards> moves_;
  std::vector<std::unique_ptr<ShardThread>> threads_;
};

}  // namespace

std::unique_ptr<SwitchEngine> SwitchEngine::start(const EngineOptions& options,
                                                  std::vector<std::unique_ptr<Transport>> transports) {
  return std::make_unique<EngineImpl>(options, std::move(transports));
}

}  // namespace switchml
