#include "shm/local_rank.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>

#include "base/assert.h"
#include "base/fnv.h"
#include "base/log.h"
#include "quant/kernels.h"
#include "shm/host_part.h"

namespace switchml::shm {

namespace {

constexpr Duration kGrace = milliseconds(300);
constexpr int kRoundsPerStep = 8;  // so that a step looks at the time, at deadlines and at failures soon again
/// From so many bytes on, results are written with non-temporal stores: the first of them would be gone before the last
/// is read.
constexpr size_t kNonTemporalBytes = 1024 * 1024;

uint64_t agreed_by(const Collective& collective) {
  return fnv1a(&collective.count, sizeof collective.count, agreement_hash(collective));  // [HOST-11]
}

}  // namespace

LocalRank::LocalRank(const Board& board, int rank, std::function<void(const Status&)> on_failure, HostUplink uplink)
    : board_(board),
      rank_(rank),
      on_failure_(std::move(on_failure)),
      uplink_(std::move(uplink)),
      places_(uplink_.places.value_or(Places::on_one_host(board.shape().ranks))),
      populated_(static_cast<size_t>(board.shape().slots)) {
  const int owners = board.shape().owners;
  SWITCHML_ASSERT((uplink_.engine != nullptr) == (rank < owners));
  SWITCHML_ASSERT(places_.ranks_here().size() == static_cast<size_t>(board.shape().ranks));
  // [HOST-9]
  if (uplink_.engine != nullptr) mine_ = static_cast<uint64_t>(rank == 0 ? owners : rank);  // chunks begin with 1
}

void LocalRank::submit(Collective collective) { submit({std::move(collective), false}); }

void LocalRank::announce(Collective collective) { submit({std::move(collective), true}); }

void LocalRank::submit(Submission submission) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    submitted_.push_back(std::move(submission));
  }
  wake();
}

void LocalRank::request_failure(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (requested_failure_.ok()) requested_failure_ = status;
  }
  wake();
}

void LocalRank::take_submissions() {
  std::vector<Submission> taken;
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(submitted_);
    failure = requested_failure_;
    attention_.store(false, std::memory_order_release);
  }
  for (Submission& submission : taken) accept(std::move(submission));
  if (!failure.ok()) fail(failure);
}

void LocalRank::accept(Submission submission) {
  Collective& collective = submission.collective;
  if (!status_.ok()) {
    if (collective.done) collective.done(status_);
    return;
  }
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  if (exchange != nullptr && !submission.is_announcement) {
    Task sizes;
    sizes.collective = sizes_of(collective, *exchange);
    plan(&sizes);
    enqueue(std::move(sizes));
  }
  Task task;
  task.is_announcement = submission.is_announcement;
  task.is_known = task.is_announcement || exchange == nullptr;
  task.collective = std::move(collective);
  plan(&task);
  enqueue(std::move(task));
}

void LocalRank::plan(Task* task) const {
  task->agreed = agreed_by(task->collective);
  task->elements_per_chunk = elements_per_chunk(task->collective);
  const size_t elements = task->is_announcement ? 0 : task->collective.count;  // [HOST-6]
  task->chunks = std::max<size_t>(1, (elements + task->elements_per_chunk - 1) / task->elements_per_chunk);
  if (arena_ == nullptr || elements == 0) return;
  task->from = range_of_input(task->collective);
  task->to = range_of_result(task->collective);
}

// ---- tensors that other ranks see ----

// Pieces of so many bytes, all as far apart.
LocalRank::ArenaRange LocalRank::arena_range(const std::vector<const void*>& pieces, size_t bytes) const {
  if (pieces.empty()) return {};
  ArenaRange result;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t at = arena_->offset_of(pieces[i], bytes);
    if (at == 0) return {};
    if (i == 0) result.at = at;
    if (i == 1) result.stride = at - result.at;  // modulo 2^64
    if (at != result.at + i * result.stride) return {};
  }
  return result;
}

LocalRank::ArenaRange LocalRank::range_of_input(const Collective& collective) const {
  const size_t bytes = collective.count * element_bytes(collective.type);
  if (const auto* scatter = std::get_if<Scatter>(&collective.kind)) return arena_range(scatter->inputs, bytes);
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  const void* input = collective.input();
  if (input == nullptr || (exchange != nullptr && exchange->send_count < collective.count)) return {};
  return arena_range({input}, bytes);
}

LocalRank::ArenaRange LocalRank::range_of_result(const Collective& collective) const {
  const size_t size = element_bytes(collective.type);
  const Gather* gather = collective.gather();
  if (gather == nullptr) {
    const OutputRange output = collective.output();
    return arena_range({output.data}, (output.end - output.begin) * size);
  }
  std::vector<const void*> pieces;
  for (const OutputRange& range : gather->receive_ranges) {
    if (range.begin != 0 || range.end != collective.count) return {};
    pieces.push_back(range.data);
  }
  return arena_range(pieces, collective.count * size);
}

// What this rank has of a chunk, and what it takes of it.
void LocalRank::say_ranges(const Task& task, ElementRange chunk, ChunkCall* call) const {
  const Collective& collective = task.collective;
  const size_t size = element_bytes(collective.type);
  if (task.from.at != 0) call->from = task.from.at + chunk.begin * size;
  call->from_stride = task.from.stride;
  const Gather* gather = collective.gather();
  OutputRange whole = collective.output();
  if (gather != nullptr && !gather->receive_ranges.empty()) whole.end = collective.count;
  const size_t begin = std::max(chunk.begin, whole.begin);
  const size_t end = std::min(chunk.begin + chunk.count, whole.end);
  call->begin = call->end = 0;
  if (begin >= end) return;
  call->begin = static_cast<uint32_t>(begin - chunk.begin);
  call->end = static_cast<uint32_t>(end - chunk.begin);
  call->is_large = (whole.end - whole.begin) * size >= kNonTemporalBytes;
  if (task.to.at != 0) call->to = task.to.at + (begin - whole.begin) * size;
  call->to_stride = task.to.stride;
}

// The other ranks must not go on with what this one's caller may change now, nor change it later: what they have begun
// to read is void, and what they may still write to is not the tensor any more.
void LocalRank::withdraw_tensors(const Status& status) {
  std::vector<const ChunkCall*> calls;
  for (uint64_t seq = oldest_; seq != next_; ++seq) {
    const ChunkCall& call = board_.call_of(rank_, seq);
    if (!board_.is_published(seq) && (call.from != 0 || call.to != 0)) calls.push_back(&call);
  }
  if (calls.empty()) return;
  const bool differs = status.code() == Code::kMismatch;  // of which each says its own
  const std::string text = "rank " + name_of(rank_) + " gave up: " + status.message();
  board_.fail(differs ? status : Status(Code::kUnavailable, text));
  for (const ChunkCall* call : calls) {
    if (call->to == 0) continue;
    for (size_t i = 0; i < pieces_of(*call); ++i) {
      arena_->isolate(call->to + i * call->to_stride, bytes_of_piece(*call));
    }
  }
}

size_t LocalRank::pieces_of(const ChunkCall& call) const {
  return call.movement == Movement::kGather ? static_cast<size_t>(board_.shape().ranks) : 1;
}
size_t LocalRank::bytes_of_piece(const ChunkCall& call) {
  return (call.end - call.begin) * element_bytes(call.reduction.type);
}

void LocalRank::enqueue(Task task) {
  if (task.is_awaited()) {
    ++called_;
    earliest_deadline_ = std::min(earliest_deadline_, task.collective.deadline);
  }
  tasks_.push_back(std::move(task));
}

// ---- sizes that have to be known first ----

Collective LocalRank::sizes_of(const Collective& collective, const Exchange& exchange) {
  const auto ranks = static_cast<size_t>(board_.shape().ranks);
  auto given = std::make_shared<std::vector<uint64_t>>(exchange.sizes);
  auto of_all = std::make_shared<std::vector<uint64_t>>(ranks * given->size());
  Collective sizes;
  sizes.type = ElementType::kUInt8;
  sizes.sequence = collective.sequence;
  sizes.title = collective.title;
  sizes.tag = collective.tag;
  sizes.total_count = collective.total_count;
  sizes.deadline = collective.deadline;
  sizes.count = given->size() * sizeof(uint64_t);
  Gather gather;
  gather.input = given->data();
  for (size_t rank = 0; rank < ranks; ++rank) {
    gather.receive_ranges.push_back({of_all->data() + rank * given->size(), 0, sizes.count});
  }
  sizes.kind = std::move(gather);
  sizes.done = [this, given, of_all](const Status& status) {
    if (status.ok()) on_sizes_known(*of_all);
  };
  return sizes;
}

// It is the next one: nothing behind it has been offered.
void LocalRank::on_sizes_known(const std::vector<uint64_t>& of_all) {
  Task& task = tasks_.front();
  auto& exchange = std::get<Exchange>(task.collective.kind);
  Result<ExchangePlan> known = exchange.on_sizes_known(of_all);
  if (known.ok()) {
    task.collective.count = known->count;
    exchange.receive_ranges = std::move(known->receive_ranges);
  } else {
    task.refused = known.status();
  }
  task.is_known = true;
  plan(&task);
}

size_t LocalRank::elements_per_chunk(const Collective& collective) const {
  const ElementType type = collective.type;
  const size_t most = board_.shape().chunk_bytes / element_bytes(type);
  // A board of small chunks may have no room for all, and then nothing but announcements.
  if (has_piece_of_each(collective.movement())) return std::max<size_t>(most / places_.pieces(), 1);  // [MOVED-9]
  if (board_.shape().owners == 0) return most;
  // All packets full but the last, and whole blocks; but too little of a chunk must not stay empty for that.
  const size_t span = elements_per_span(type, uplink_.payload_bytes, uplink_.exact);
  const size_t whole = most / span * span;
  return most - whole > most / 4 ? most : whole;  // [HOST-7]
}

bool LocalRank::step(Time now) {
  if (attention_.load(std::memory_order_acquire)) take_submissions();
  if (!status_.ok()) return false;
  if (stuck_since_ == kNever || oldest_ == next_) stuck_since_ = now;
  choose_stores(now);
  bool moved = false;
  for (int round = 0; round < kRoundsPerStep; ++round) {
    bool any = false;
    while (finish_one()) {
      any = true;
      stuck_since_ = now;
    }
    const bool offered = offer_one();
    any = any || offered;
    if (!offered) any = reduce_one() || any;  // while it offers, others may reduce
    while (hand_one_up()) any = true;
    if (!any || !status_.ok()) break;
    moved = true;
    if (hurried_ != nullptr && hurried_->has_work()) break;
  }
  if (status_.ok()) check_board();
  if (status_.ok()) check_deadline(now);
  if (status_.ok() && !moved) check_others();
  if (status_.ok() && !moved && now - stuck_since_ >= slow_.after) warn_of_slowness(now);
  return moved;
}

bool LocalRank::has_work() const {
  if (attention_.load(std::memory_order_acquire)) return true;
  if (!status_.ok()) return false;
  if (can_hand_up() || !board_.failure().ok()) return true;
  return board_.any_ready() || can_offer() || (oldest_ != next_ && board_.is_published(oldest_));
}

// ---- from a tensor to the board ----

bool LocalRank::is_window_full() const { return next_ - oldest_ >= static_cast<uint64_t>(board_.shape().slots); }

// What it offers next.
bool LocalRank::is_ready(const Task& task) const {
  if (!task.is_known) return false;
  if (task.collective.ready == nullptr || task.is_announcement) return true;
  const auto* exchange = std::get_if<Exchange>(&task.collective.kind);
  const size_t elements = exchange != nullptr ? exchange->send_count : task.collective.count;
  return task.collective.is_ready(std::min(elements, (task.offered + 1) * task.elements_per_chunk));
}

bool LocalRank::can_offer() const {
  return offering_ < tasks_.size() && !is_window_full() && is_ready(tasks_[offering_]);
}

bool LocalRank::offer_one() {
  if (!can_offer()) return false;
  Task& task = tasks_[offering_];
  const Collective& collective = task.collective;
  const size_t first = task.offered * task.elements_per_chunk;
  const size_t elements = task.is_announcement ? 0 : std::min(task.elements_per_chunk, collective.count - first);
  ChunkCall call;
  const Operands* operands = collective.operands();
  call.reduction = {collective.op, collective.type, operands != nullptr ? operands->divisor : 1};
  if (elements > 0 && !has_memory(next_)) return false;
  if (elements > 0) say_ranges(task, {first, elements}, &call);
  if (elements > 0 && call.from == 0) fill(task, first, elements);
  call.agreed = task.agreed;
  call.elements = static_cast<uint32_t>(elements);
  call.movement = collective.movement();
  call.root = collective.root();
  if (task.offered == 0) task.first_seq = next_;
  board_.offer(rank_, next_++, call);
  if (++task.offered == task.chunks) ++offering_;
  return true;
}

// What this rank has of a chunk goes into its frame.
void LocalRank::fill(const Task& task, size_t first, size_t elements) const {
  const Collective& collective = task.collective;
  const size_t size = element_bytes(collective.type);
  const Stores stores = board_.shape().owners == 0 ? board_.stores() : Stores::kCached;
  const auto* scatter = std::get_if<Scatter>(&collective.kind);
  const bool has_root = scatter != nullptr || std::holds_alternative<Broadcast>(collective.kind);
  if (has_root && !is_root(collective)) return;
  uint8_t* frame = board_.frame(rank_, next_);
  if (scatter != nullptr) {
    for (size_t rank = 0; rank < scatter->inputs.size(); ++rank) {
      const auto* piece = static_cast<const uint8_t*>(scatter->inputs[rank]);
      std::memcpy(frame + places_.piece_of(static_cast<int>(rank)) * elements, piece + first, elements);
    }
    return;
  }
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  const size_t given =
      exchange == nullptr ? elements : std::min(elements, std::max(exchange->send_count, first) - first);
  if (given == 0) return;
  const auto* from = static_cast<const uint8_t*>(collective.input()) + first * size;
  fill_frame(from, given * size, frame, stores);
}

// Where it is missing, no other rank can go on either: what is offered and reduced with others is populated by all of
// them.
bool LocalRank::has_memory(uint64_t seq) {
  const size_t slot = static_cast<size_t>(seq % populated_.size());
  if (populated_[slot]) return true;
  const Status status = board_.populate(seq);
  if (status.ok()) return populated_[slot] = true;
  const Status missing(status.code(), "rank " + name_of(rank_) + ": " + status.message());
  board_.fail(missing);
  fail(missing);
  return false;
}

// Of a broadcast or a scatter.
bool LocalRank::is_root(const Collective& collective) const {
  return places_.is_here(collective.root()) && places_.place_of(collective.root()) == rank_;
}

bool LocalRank::reduce_one() {
  const uint64_t seq = board_.claim(rank_);
  if (seq == 0) return false;
  time_a_line(seq);
  board_.reduce(seq);
  return true;
}

// Of another rank, each in its turn. Only what changes is written: the line of the score is everybody's.
void LocalRank::time_a_line(uint64_t seq) {
  const int others = board_.shape().ranks - 1;
  if (latency_timer_ == nullptr || others == 0) return;
  const int other = (rank_ + 1 + static_cast<int>(seq % static_cast<uint64_t>(others))) % (others + 1);
  const Duration took = latency_timer_(*board_.probe_line(other, seq));
  std::atomic<int32_t>& score = board_.line_score();
  const int32_t before = score.load(std::memory_order_relaxed);
  const int32_t after = LatencyScore::after(before, took);
  if (after != before) score.store(after, std::memory_order_relaxed);
}

// ---- to the other hosts ----

bool LocalRank::can_hand_up() const { return uplink_.engine != nullptr && mine_ < next_ && board_.is_complete(mine_); }

bool LocalRank::hand_one_up() {
  if (!status_.ok() || !can_hand_up()) return false;
  const uint64_t seq = mine_;
  const auto task = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& one) {
    return one.offered > 0 && seq >= one.first_seq && seq - one.first_seq < one.chunks;
  });
  SWITCHML_ASSERT(task != tasks_.end());                  // what is not published is not finished
  mine_ += static_cast<uint64_t>(board_.shape().owners);  // [HOST-9]
  uplink_.engine->submit(chunk_for_all(*task, seq));
  return true;
}

// What the ranks of this host have offered, as one worker's part. Where they differ, no other host's part is the same:
// all hosts find out.
Collective LocalRank::chunk_for_all(const Task& task, uint64_t seq) const {
  const Collective& whole = task.collective;
  const bool agreed = board_.is_agreed(seq);
  const size_t first = static_cast<size_t>(seq - task.first_seq) * task.elements_per_chunk;
  const size_t left = task.is_announcement ? 0 : whole.count - std::min(first, whole.count);
  Collective chunk = part_of_host(board_, seq, whole, std::min(task.elements_per_chunk, left), places_);
  chunk.tag = agreed ? task.agreed : ~task.agreed;  // [HOST-11]
  chunk.stream = uplink_.stream;                    // [ELANE-6]
  chunk.done = [&board = board_, seq, agreed](const Status& status) {
    if (status.ok()) {
      board.publish(seq, agreed ? Verdict::kReduced : Verdict::kMismatch);
    } else if (status.code() != Code::kAborted) {  // of this rank alone; that it leaves is to be seen
      board.fail(status);
    }
  };
  return chunk;
}

// ---- and back ----

bool LocalRank::finish_one() {
  if (oldest_ == next_ || !board_.is_published(oldest_)) return false;
  Task& task = tasks_.front();
  if (board_.verdict(oldest_) == Verdict::kMismatch) {
    counters_.witness_failures.add(1);
    fail(differs_from("the other ranks of this host"));
    return false;
  }
  if (task.finished == 0) {
    trial_.begin(task.chunks);
    finished_ = 0;
  }
  ++finished_;
  if (!task.is_announcement) {
    take_result(task, task.finished, board_.result(oldest_));
    counters_.chunks_completed.add(1);
  }
  ++oldest_;
  if (++task.finished < task.chunks) return true;
  if (task.is_awaited()) --called_;
  const auto done = std::move(task.collective.done);
  const Status outcome = task.refused;
  tasks_.pop_front();
  --offering_;
  if (tasks_.empty()) earliest_deadline_ = kNever;
  if (done) done(outcome);
  return true;
}

void LocalRank::choose_stores(Time now) {
  if (rank_ != 0 || latency_timer_ == nullptr || finished_ == 0) return;
  slow_lines_ = LatencyScore::is_slow(board_.line_score().load(std::memory_order_relaxed), slow_lines_);
  trial_.finished(finished_, now, slow_lines_);
  finished_ = 0;
  board_.set_stores(trial_.bypasses() ? Stores::kNonTemporal : Stores::kCached);
}

// The part that the caller wants.
void LocalRank::take_result(const Task& task, size_t chunk, const uint8_t* result) {
  const Collective& collective = task.collective;
  const size_t first = chunk * task.elements_per_chunk;
  const ElementRange range{first, std::min(collective.count - first, task.elements_per_chunk)};
  if (collective.operands() != nullptr) {
    counters_.elements_summed_in_memory.add(range.count);
  } else {
    counters_.bytes_moved_in_memory.add(range.count);
  }
  if (task.to.at != 0) {
    const ChunkCall& call = board_.call_of(rank_, oldest_);
    counters_.bytes_written_in_place.add(pieces_of(call) * bytes_of_piece(call));
    collective.report_written(range.begin, range.begin + range.count);
    return;
  }
  if (std::holds_alternative<Scatter>(collective.kind)) result += static_cast<size_t>(rank_) * range.count;
  const Gather* gather = collective.gather();
  if (gather == nullptr) {
    write(collective.type, collective.output(), range, result);
    collective.report_written(range.begin, range.begin + range.count);
    return;
  }
  for (size_t rank = 0; rank < gather->receive_ranges.size(); ++rank) {
    const size_t at = places_.piece_of(static_cast<int>(rank)) * range.count;
    write(collective.type, gather->receive_ranges[rank], range, result + at);
  }
}

void LocalRank::write(ElementType type, const OutputRange& to, ElementRange chunk, const uint8_t* result) {
  const size_t begin = std::max(chunk.begin, to.begin);
  const size_t end = std::min(chunk.begin + chunk.count, to.end);
  if (begin >= end) return;
  const size_t size = element_bytes(type);
  uint8_t* target = static_cast<uint8_t*>(to.data) + (begin - to.begin) * size;
  const uint8_t* from = result + (begin - chunk.begin) * size;
  if ((to.end - to.begin) * size >= kNonTemporalBytes) {
    quant::kernels().copy_non_temporal(from, target, (end - begin) * size);
  } else {
    std::memcpy(target, from, (end - begin) * size);
  }
}

// ---- waiting ----

// Half of the window at once: to wake for every chunk would cost more than the chunks, where ranks share cores. But no
// collective waits for the next one, which other ranks may call much later.
uint64_t LocalRank::awaited() const {
  if (oldest_ == next_ || called_ == 0) return UINT64_MAX;  // nobody waits for announcements alone
  const uint64_t half = static_cast<uint64_t>(board_.shape().slots + 1) / 2;
  uint64_t until = std::min(oldest_ + half - 1, next_ - 1);
  until = std::min(until, oldest_ + (tasks_.front().chunks - tasks_.front().finished) - 1);
  // Counted, not looked at: later ones may be there before the oldest is. Any further one may be it, then.
  return std::max(until, board_.published() + 1);
}

bool LocalRank::is_roused() const { return has_work() || (status_.ok() && !gone().empty()); }

void LocalRank::sleep(const std::vector<LocalRank*>& local_ranks, Duration timeout) {
  const LocalRank& first = *local_ranks.front();
  uint32_t heard = 0;
  for (const LocalRank* local_rank : local_ranks) {
    const uint32_t doorbell = local_rank->board_.fall_asleep(local_rank->rank_, local_rank->awaited());
    if (local_rank == &first) heard = doorbell;
  }
  const bool busy =
      std::any_of(local_ranks.begin(), local_ranks.end(), [](const LocalRank* one) { return one->is_roused(); });
  if (!busy) first.board_.wait_for_bell(first.rank_, heard, timeout);
  for (const LocalRank* local_rank : local_ranks) local_rank->board_.awake(local_rank->rank_);
}

void LocalRank::check_deadline(Time now) {
  if (called_ == 0 || now < earliest_deadline_) return;
  earliest_deadline_ = kNever;
  // Where it is the other hosts' turn, the engine knows better what is missing.
  const bool up = board_.shape().owners > 0 && oldest_ != next_ && board_.is_complete(oldest_);
  for (const Task& task : tasks_) {
    if (!task.is_awaited()) continue;  // what becomes of it is to be seen on the other board
    if (up && now >= task.collective.deadline && now < task.collective.deadline + kGrace) {
      earliest_deadline_ = std::min(earliest_deadline_, task.collective.deadline + kGrace);
    } else if (now >= task.collective.deadline) {
      fail(Status(Code::kTimeout,
                  describe(task.collective) + " did not complete before its timeout passed: " + missing_text(now)));
      return;
    }
    if (now < task.collective.deadline) earliest_deadline_ = std::min(earliest_deadline_, task.collective.deadline);
  }
}

// What an owner's engine gave up for, or another rank of the host (without owners: for lack of memory, or of will).
void LocalRank::check_board() {
  const Status status = board_.failure();
  if (status.ok()) return;
  if (status.code() == Code::kMismatch && tasks_.empty() && beside_ != nullptr && !beside_->tasks_.empty()) return;
  if (status.code() == Code::kMismatch && !tasks_.empty()) {  // what this rank called only it can say
    fail(differs_from("others"));
  } else {
    fail(status);
  }
}

Status LocalRank::differs_from(const std::string& whom) const {
  return {Code::kMismatch, "this rank called " + describe(tasks_.front().collective) + ", and " + whom +
                               " did not: ranks called with different operations, types or sizes"};
}

std::string LocalRank::name_of(int rank) const {
  return std::to_string(places_.ranks_here()[static_cast<size_t>(rank)]);
}

// Who has left will not contribute any more, nor hand anything up.
std::string LocalRank::gone() const {
  if (called_ == 0 || oldest_ == next_ || board_.is_published(oldest_)) return {};
  std::string text;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (!board_.has_left(rank)) continue;
    const bool owns = board_.shape().owners > 0 && board_.owner_of(oldest_) == rank;
    if (board_.has_offered(rank, oldest_) && !owns) continue;
    text += (text.empty() ? "" : ", ") + name_of(rank) + " (left the session)";
  }
  return board_.is_published(oldest_) ? "" : text;  // the last thing that somebody did before it left
}

// Of a chunk that this rank has handed up its engine says what is missing.
void LocalRank::warn_of_slowness(Time now) {
  const auto called = std::find_if(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.is_awaited(); });
  if (called == tasks_.end() || oldest_ == next_ || !slow_.tell || std::exchange(called->is_slow, true)) return;
  const bool handed_up = board_.shape().owners > 0 && board_.is_complete(oldest_) && board_.owner_of(oldest_) == rank_;
  if (!handed_up) slow_.tell(called->collective, missing_text(now));
}

void LocalRank::check_others() {
  const std::string left = gone();
  if (left.empty()) return;
  const auto called = std::find_if(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.is_awaited(); });
  fail(
      Status(Code::kUnavailable, describe(called->collective) + " cannot complete: no contribution from rank " + left));
}

std::string LocalRank::missing_text(Time now) const {
  std::string missing;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (board_.has_offered(rank, oldest_)) continue;
    missing += (missing.empty() ? "" : ", ") + name_of(rank);
    if (board_.has_left(rank)) missing += " (left the session)";
  }
  std::ostringstream text;
  const double silent = stuck_since_ == kNever ? 0.0 : to_seconds(now - stuck_since_);
  const int adding = board_.shape().owners > 0 ? -1 : board_.claimed_by(oldest_);
  if (!missing.empty()) {
    text << "no contribution from rank " << missing << " for " << silent
         << " s: is that rank dead, stopped, or did it not call this collective?";
  } else if (board_.shape().owners > 0) {
    text << "all ranks of this host have contributed, and rank " << name_of(board_.owner_of(oldest_))
         << " has not got the sum of all hosts for " << silent << " s";
  } else if (adding >= 0) {
    text << "all ranks have contributed, and rank " << name_of(adding) << " has been adding them for " << silent
         << " s: is that rank dead or stopped?";
  } else {
    text << "all ranks have contributed, and none has added them for " << silent << " s: is one dead or stopped?";
  }
  return text.str();
}

void LocalRank::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  while (reduce_one()) {  // all have offered these: those that go on count on somebody's doing it
  }
  status_ = status;
  if (arena_ != nullptr) withdraw_tensors(status);
  if (status.code() != Code::kAborted) SWITCHML_LOG(kInfo) << "memory of this host: " << status.to_string();
  if (uplink_.engine != nullptr) uplink_.engine->fail(status);
  if (board_.shape().owners > 0 && status.code() != Code::kAborted) board_.fail(status);  // all hosts give up, or none
  std::deque<Task> failed;
  failed.swap(tasks_);
  offering_ = called_ = 0;
  for (Task& task : failed) {
    if (task.collective.done) task.collective.done(status);
  }
  on_failure_(status);
}

}  // namespace switchml::shm
