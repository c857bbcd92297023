#include "shm/engine.h"

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fnv.h"
#include "engine/switch_engine.h"
#include "format/task.h"
#include "shm/local_rank_thread.h"
#include "shm/mail.h"
#include "slots/chunk_plan.h"
#include "slots/partial_sum_room.h"

namespace switchml::shm {

namespace {

class MemoryEngine final : public Engine {
 public:
  MemoryEngine(const MemoryEngineOptions& options, HostUplinkOptions uplink)
      : options_(options),
        board_(options_.shape, options_.segment->data()),
        short_board_(short_board(uplink.engine.session)),
        short_packets_(static_cast<size_t>(uplink.engine.session.lanes_per_shard().data)),
        payload_bytes_(uplink.engine.session.payload_bytes),
        exact_(uplink.engine.session.exact),
        partial_sum_ranks_(uplink.engine.session.partial_sum_ranks),
        pieces_(uplink.host_map ? uplink.host_map->pieces() : static_cast<size_t>(options_.shape.ranks)),
        up_(start_uplink(uplink)),
        local_rank_(board_, options_.rank, [this](const Status& status) { on_failure(status); },
                    {up_.get(), payload_bytes_, exact_, uplink.host_map,
                     short_board_ ? StreamChoice::kBulk : StreamChoice::kByLength, partial_sum_ranks_}) {
    local_rank_.time_copies(&monotonic_now);
    if (options_.arena != nullptr) local_rank_.share_tensors(*options_.arena);
    local_rank_.warn_when_slow(options_.slow);
    std::vector<LocalRank*> local_ranks = {&local_rank_};
    if (short_board_) {
      short_.emplace(
          *short_board_, options_.rank, [this](const Status& status) { on_failure(status); },
          HostUplink{up_.get(), payload_bytes_, exact_, uplink.host_map, StreamChoice::kShort, partial_sum_ranks_});
      short_->time_copies(&monotonic_now);
      short_->warn_when_slow(options_.slow);
      local_rank_.yield_to(*short_);
      local_ranks.insert(local_ranks.begin(), &*short_);
    }
    thread_ = std::make_unique<LocalRankThread>(std::move(local_ranks), options_.spin);
    if (options_.messages != nullptr) {
      options_.messages->when_failed([this](const Status& status) {
        const std::string text = "rank " + std::to_string(options_.rank) + " gave up: " + status.message();
        board_.fail(Status(Code::kUnavailable, text));  // the other ranks must not wait for this one
        fail(status);
      });
    }
  }

  ~MemoryEngine() override {
    abort("the process group was shut down");
    if (options_.messages != nullptr) options_.messages->close();
    thread_.reset();
    if (options_.arena != nullptr) options_.arena->close();
    up_.reset();
    if (short_board_) short_board_->leave(options_.rank);
    board_.leave(options_.rank);
  }

  void submit(Collective collective) override {
    give(std::move(collective));
    thread_->notify();
  }
  void wake() override {
    local_rank_.wake();
    if (short_) short_->wake();
    thread_->notify();
  }
  // With owners other threads and the network do the work.
  std::unique_ptr<CallerTurn> begin_turn(size_t /*bytes*/) override {
    return options_.shape.owners == 0 ? thread_->begin_turn() : nullptr;
  }
  void abort(const std::string& reason) override { fail(Status(Code::kAborted, reason)); }
  void fail(const Status& status) override {
    remember(status);
    request_failure(status);
    thread_->notify();
    if (options_.messages != nullptr) options_.messages->fail(status);
  }

  Status status() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  int shards() const override {
    return 1 + (short_ ? 1 : 0) + (options_.messages != nullptr ? 1 : 0) + (up_ ? up_->shards() : 0);
  }
  const WorkerCounters& counters(int shard) const override {
    if (shard-- == 0) return local_rank_.counters();
    if (short_ && shard-- == 0) return short_->counters();
    if (options_.messages != nullptr && shard-- == 0) return options_.messages->counters();
    return up_->counters(shard);
  }
  size_t memory_bytes() const override {
    const size_t mail = options_.messages != nullptr ? mail_bytes(options_.shape) : 0;
    return options_.shape.bytes() + mail + (up_ ? up_->memory_bytes() : 0);
  }

 private:
  void give(Collective&& collective) {
    SWITCHML_ASSERT(collective.operands() != nullptr || options_.shape.owners == 0 || exact_);
    const std::lock_guard<std::mutex> lock(order_);  // both boards have that of the numbers
    // Where ranks called something of different boards, later ones that look alike do not meet as the same. (With
    // owners the order of announcements serves.)
    const uint64_t number = submitted_++;
    if (options_.shape.owners == 0) collective.tag = fnv1a(&number, sizeof number, collective.tag);
    if (is_short(collective)) {
      short_->submit(std::move(collective));
      return;
    }
    if (!short_) return local_rank_.submit(std::move(collective));  // [HOST-3]
    Collective announced = collective;
    announced.done = nullptr;
    if (options_.shape.owners > 0) {
      // Other hosts wait for this one's part of both: a rank that has all of the tensor must not leave before that is
      // sent.
      // [HOST-10]
      const auto both = std::make_shared<SharedCollective>(std::move(collective), 2);
      collective = both->collective();
      collective.done = announced.done = [both](const Status& status) { both->finish(status); };
    }
    short_->announce(std::move(announced));  // [HOST-5]
    local_rank_.submit(std::move(collective));
  }

  void remember(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  void request_failure(const Status& status) {
    if (short_) short_->request_failure(status);
    local_rank_.request_failure(status);
  }
  // Called by the thread. A failure of one local rank is the end of both.
  void on_failure(const Status& status) {
    remember(status);
    request_failure(status);
    if (options_.messages != nullptr) options_.messages->fail(status);
    if (!std::exchange(told_, true) && options_.on_failure) options_.on_failure(status);
  }

  // The same on all ranks. A barrier ends after all that was called before it.
  bool is_short(const Collective& collective) const {
    if (!short_ || collective.op == ReduceOp::kBarrier || std::holds_alternative<Exchange>(collective.kind))
      return false;  // [HOST-4]
    const size_t pieces = has_piece_of_each(collective.movement()) ? pieces_ : 1;
    if (collective.count > options_.shape.short_chunk_bytes / element_bytes(collective.type) / pieces) return false;
    const size_t room = chunk_room(collective.op, collective.type, payload_bytes_, partial_sum_ranks_);
    return options_.shape.owners == 0 ||
           collective.count * pieces <= short_packets_ * elements_per_chunk(collective.type, room, exact_);
  }
  // The session of hosts must have two streams as well: what goes through one has one order on all hosts.
  std::optional<Board> short_board(const SessionParameters& session) const {
    const BoardShape& shape = options_.shape;
    if (shape.short_chunk_bytes == 0 || (shape.owners > 0 && !session.lanes_per_shard().has_bulk())) return {};
    return Board(shape.short_shape(), options_.segment->data() + Board::bytes(shape), &board_);
  }

  std::unique_ptr<Engine> start_uplink(HostUplinkOptions& uplink) {
    SWITCHML_ASSERT(uplink.transports.empty() == (options_.rank >= options_.shape.owners));
    if (uplink.transports.empty()) return nullptr;
    uplink.engine.first_shard = options_.rank;
    uplink.engine.keep_results = false;
    uplink.engine.on_switch_lost = nullptr;
    uplink.engine.on_failure = [this](const Status& status) {
      if (status.code() != Code::kAborted) board_.fail(status);
    };
    return SwitchEngine::start(uplink.engine, std::move(uplink.transports));
  }

  const MemoryEngineOptions options_;
  const Board board_;
  const std::optional<Board> short_board_;  // short collectives there do not wait for larger ones
  const size_t short_packets_;              // the most packets of a collective of that board
  const size_t payload_bytes_;
  const bool exact_;  // the session of hosts
  const size_t partial_sum_ranks_;
  const size_t pieces_;  // pieces of a result that has one of each rank
  std::unique_ptr<Engine> up_;
  std::mutex order_;  // both boards get submissions in one order
  uint64_t submitted_ = 0;
  mutable std::mutex mutex_;
  Status status_;
  LocalRank local_rank_;
  std::optional<LocalRank> short_;
  bool told_ = false;  // the thread's
  std::unique_ptr<LocalRankThread> thread_;
};

}  // namespace

std::unique_ptr<Engine> start_memory_engine(const MemoryEngineOptions& options, HostUplinkOptions uplink) {
  return std::make_unique<MemoryEngine>(options, std::move(uplink));
}

}  // namespace switchml::shm
