#include "engine/switch_engine.h"

#include <cstring>
#include <future>
#include <mutex>

#include "base/assert.h"
#include "base/thread.h"
#include "engine/shard_thread.h"
#include "engine/shares.h"
#include "engine/task.h"

namespace switchml {

namespace {

class EngineImpl final : public SwitchEngine {
 public:
  EngineImpl(const EngineOptions& options, std::vector<std::unique_ptr<Transport>> transports)
      : options_(options),
        sessions_(with_others(options.session, options.others)),
        threads_wanted_(transports.size() / sessions_.size()),
        shares_(sessions_, static_cast<int>(threads_wanted_)) {
    SWITCHML_ASSERT(!transports.empty() && transports.size() == threads_wanted_ * sessions_.size());
    SWITCHML_ASSERT(options.first_shard + static_cast<int>(threads_wanted_) <= options.session.shards);
    const Time now = monotonic_now();
    for (size_t i = 0; i < transports.size(); ++i) {
      EngineOptions mine = options_;
      mine.session = sessions_[i / threads_wanted_];
      mine.others.clear();
      shards_.push_back(std::make_shared<Shard>(options.first_shard + static_cast<int>(i % threads_wanted_), mine,
                                                std::move(transports[i]), now,
                                                [this](const Status& status) { on_shard_failure(status); }));
    }
    try {
      for (size_t i = 0; i < threads_wanted_; ++i) {
        const bool placed = i < options_.processors.size();
        threads_.push_back(std::make_unique<ShardThread>(shards_of_thread(i), options_.spin,
                                                         placed ? options_.processors[i] : std::vector<int>()));
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
    SWITCHML_ASSERT(collective.movement == Movement::kNone ||
                    (options_.session.native && options_.session.workers > 1 && !collective.arrange));
    SWITCHML_ASSERT((options_.session.native ? native_can : integer_can)(collective.op, collective.type));
    if (options_.session.workers == 1 && status().ok()) {
      complete_alone(collective);
      return;
    }
    // One order for all shards: ranks' streams must agree in each of them.
    const std::lock_guard<std::mutex> lock(order_);  // [LANE-3]
    const std::vector<ShardPart> parts = shares_.next(collective);
    auto shared = std::make_shared<SharedCollective>(std::move(collective), static_cast<int>(parts.size()));
    for (const ShardPart& part : parts) shards_[part.shard]->submit(shared, part.range, part.chunk_bytes);
  }

  void abort(const std::string& reason) override {
    const Status status(Code::kAborted, reason);
    remember(status);
    for (const auto& shard : shards_) shard->request_failure(status);
  }

  void fail(const Status& status) override { on_shard_failure(status); }

  std::vector<uint32_t> suspend() override {
    SWITCHML_ASSERT(options_.others.empty());
    std::vector<uint32_t> all;
    on_each_shard([&all](Shard& shard, Time) {
      shard.suspend();
      const std::vector<uint32_t> accepted = shard.accepted();
      all.insert(all.end(), accepted.begin(), accepted.end());
    });
    return all;
  }

  void set_waiting_for(const std::string& what) override {
    on_each_shard([&what](Shard& shard, Time) { shard.set_waiting_for(what); });
  }

  std::vector<uint8_t> last_result(int slot) override {
    const int per_shard = options_.session.slots_per_shard();
    std::vector<uint8_t> frame;
    in_thread_of(*shards_[static_cast<size_t>(slot / per_shard)],
                 [&](Shard& shard, Time) { frame = shard.last_result(slot % per_shard); });
    return frame;
  }

  void supply(std::vector<std::vector<uint8_t>> frames) override {
    const int per_shard = options_.session.slots_per_shard();
    on_each_shard([&frames, per_shard](Shard& shard, Time now) {
      for (const std::vector<uint8_t>& frame : frames) {
        const bool whole = frame.size() >= wire::kHeaderBytes;
        if (whole && wire::read_header(frame.data()).slot / per_shard == shard.index()) shard.supply(frame, now);
      }
    });
  }

  void resume(const Route& route, std::vector<std::unique_ptr<Transport>> transports) override {
    SWITCHML_ASSERT(transports.empty() || transports.size() == shards_.size());
    on_each_shard([&](Shard& shard, Time now) {
      const auto index = static_cast<size_t>(shard.index());
      shard.resume(route, transports.empty() ? nullptr : std::move(transports[index]), now);
    });
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
  // One of each session. Ranks begin with different ones, so that not all send to the same aggregator at once.
  std::vector<std::shared_ptr<Shard>> shards_of_thread(size_t thread) const {
    std::vector<std::shared_ptr<Shard>> all;
    const size_t sessions = sessions_.size();
    for (size_t i = 0; i < sessions; ++i) {
      const size_t session = (static_cast<size_t>(options_.session.worker) + 1 + i) % sessions;
      all.push_back(shards_[session * threads_wanted_ + thread]);
    }
    return all;
  }

  // A group of one: the sum is the input, exactly.
  static void complete_alone(const Collective& collective) {
    const size_t size = element_bytes(collective.type);
    const size_t bytes = (collective.output_end - collective.output_begin) * size;
    const uint8_t* from = static_cast<const uint8_t*>(collective.input) + collective.output_begin * size;
    if (bytes > 0 && from != collective.output) std::memmove(collective.output, from, bytes);
    if (collective.done) collective.done(Status());
  }

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
  void on_each_shard(const std::function<void(Shard&, Time)>& what) {
    for (const auto& shard : shards_) in_thread_of(*shard, what);
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
    for (const auto& shard : shards_) shard->request_failure(status);
    if (options_.on_failure) options_.on_failure(status);
  }

  const EngineOptions options_;
  const std::vector<SessionParameters> sessions_;
  const size_t threads_wanted_;
  std::mutex order_;  // guards what follows, and with it the order of the shards' submissions
  Shares shares_;
  mutable std::mutex status_mutex_;
  Status status_;
  std::vector<std::shared_ptr<Shard>> shards_;  // which may call each other until all threads have stopped
  std::vector<std::unique_ptr<ShardThread>> threads_;
};

}  // namespace

std::unique_ptr<SwitchEngine> SwitchEngine::start(const EngineOptions& options,
                                                  std::vector<std::unique_ptr<Transport>> transports) {
  return std::make_unique<EngineImpl>(options, std::move(transports));
}

}  // namespace switchml
