#include "shm/local_rank.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/assert.h"
#include "base/log.h"
#include "shm/host_part.h"

namespace switchml::shm {

namespace {

constexpr Duration kGrace = milliseconds(300);
constexpr Duration kLook = SlowWarning::kShown;
constexpr int kRoundsPerStep = 8;  // so that a step looks at the time, at deadlines and at failures soon again
}  // namespace

LocalRank::LocalRank(const Board& board, int rank, std::function<void(const Status&)> on_failure, HostUplink uplink)
    : board_(board),
      rank_(rank),
      on_failure_(std::move(on_failure)),
      uplink_(std::move(uplink)),
      host_map_(uplink_.host_map.value_or(HostMap::on_one_host(board.shape().ranks))),
      tensors_(board, rank, host_map_, uplink_.payload_bytes, uplink_.exact, uplink_.partial_sum_ranks),
      populated_(static_cast<size_t>(board.shape().slots)) {
  const int owners = board.shape().owners;
  SWITCHML_ASSERT((uplink_.engine != nullptr) == (rank < owners));
  SWITCHML_ASSERT(host_map_.ranks_here().size() == static_cast<size_t>(board.shape().ranks));
  // [HOST-9]
  if (uplink_.engine != nullptr) mine_ = static_cast<uint64_t>(rank == 0 ? owners : rank);  // chunks begin with 1
}

void LocalRank::submit(Collective collective) { submit({std::move(collective), false}); }

void LocalRank::announce(Collective collective) { submit({std::move(collective), true}); }

void LocalRank::submit(Submission&& submission) {
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
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_.swap(submitted_);
    failure = requested_failure_;
    attention_.store(false, std::memory_order_release);
  }
  for (Submission& submission : taken_) accept(std::move(submission));
  taken_.clear();
  if (!failure.ok()) fail(failure);
}

void LocalRank::accept(Submission&& submission) {
  Collective& collective = submission.collective;
  if (!status_.ok()) {
    if (collective.done) collective.done(status_);
    return;
  }
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  const bool needs_sizes = exchange != nullptr && !submission.is_announcement;
  if (needs_sizes) enqueue(sizes_of(collective, *exchange), false, true);
  enqueue(std::move(collective), submission.is_announcement, !needs_sizes);
}

void LocalRank::enqueue(Collective&& collective, bool is_announcement, bool is_known) {
  Task& task = tasks_.emplace_back();
  task.is_announcement = is_announcement;
  task.is_known = is_known;
  task.collective = std::move(collective);
  tensors_.plan(&task);
  if (task.is_awaited()) {
    ++called_;
    earliest_deadline_ = std::min(earliest_deadline_, task.collective.deadline);
  }
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
  tensors_.plan(&task);
}

bool LocalRank::step(Time now) {
  if (attention_.load(std::memory_order_acquire)) take_submissions();
  if (!status_.ok()) return false;
  if (stuck_since_ == kNever || oldest_ == next_) stuck_since_ = now;
  bool moved = false;
  for (int round = 0; round < kRoundsPerStep; ++round) {
    bool any = false;
    while (finish_one()) {
      any = true;
      stuck_since_ = now;
    }
    any = offer_one() || any;
    any = make_one() || any;
    while (hand_one_up()) any = true;
    if (!any || !status_.ok()) break;
    moved = true;
    if (priority_rank_ != nullptr && priority_rank_->has_work()) break;
  }
  if (status_.ok()) check_board();
  if (status_.ok()) check_deadline(now);
  if (status_.ok() && !moved) check_others();
  if (status_.ok() && !moved && now - std::max(stuck_since_, looked_at_) >= std::min(kLook, slow_.after)) {
    warn_of_slowness(now);
  }
  return moved;
}

bool LocalRank::has_work() const {
  if (attention_.load(std::memory_order_acquire)) return true;
  if (!status_.ok()) return false;
  if (can_hand_up() || !board_.failure().ok()) return true;
  return can_make() || can_offer() || (oldest_ != next_ && board_.is_published(oldest_));
}

// ---- from a tensor to the board ----

bool LocalRank::is_window_full() const { return next_ - oldest_ >= board_.window(); }

// Whether the input has the elements of the chunk that is offered next.
bool LocalRank::is_ready(const Task& task) const {
  if (!task.is_known || task.collective.ready == nullptr) return task.is_known;
  const ElementRange chunk = task.chunk(task.offered);
  const auto* exchange = std::get_if<Exchange>(&task.collective.kind);
  const size_t end = chunk.begin + chunk.count;
  return task.collective.is_ready(exchange == nullptr ? end : std::min(end, exchange->send_count));
}

bool LocalRank::can_offer() const {
  return offering_ < tasks_.size() && !is_window_full() && is_ready(tasks_[offering_]);
}

bool LocalRank::offer_one() {
  if (!can_offer()) return false;
  Task& task = tasks_[offering_];
  const ElementRange chunk = task.chunk(task.offered);
  if (chunk.count > 0 && !has_memory(next_)) return false;
  if (task.offered == 0) {
    task.first_seq = next_;
    task.keeps_input = offering_ == 0 && (sibling_ == nullptr || !sibling_->has_results_to_come());
  }
  const ChunkCall said = tensors_.describe(task, chunk);
  if (chunk.count > 0 && said.from == 0) tensors_.fill(task, chunk, said, board_.frame(rank_, next_), clock_);
  board_.offer(rank_, next_++, said);
  if (++task.offered == task.chunks) ++offering_;
  return true;
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

bool LocalRank::can_make() const { return board_.shape().owners == 0 && mine_ < next_ && board_.is_ready(mine_); }

bool LocalRank::make_one() {
  if (!status_.ok() || !can_make()) return false;
  const uint64_t seq = mine_++;
  const Verdict verdict = board_.verdict(seq);
  if (verdict != Verdict::kParts && verdict != Verdict::kTensors) return true;
  const Task& task = task_of(seq);
  tensors_.make(task, task.chunk(static_cast<size_t>(seq - task.first_seq)), seq);
  board_.made(rank_, seq);
  return true;
}

// Precondition: the chunk has been offered, and its result not been taken.
const LocalRank::Task& LocalRank::task_of(uint64_t seq) const {
  const auto task = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& one) {
    return one.offered > 0 && seq >= one.first_seq && seq - one.first_seq < one.chunks;
  });
  SWITCHML_ASSERT(task != tasks_.end());
  return *task;
}

// ---- to the other hosts ----

bool LocalRank::can_hand_up() const { return uplink_.engine != nullptr && mine_ < next_ && board_.is_complete(mine_); }

bool LocalRank::hand_one_up() {
  if (!status_.ok() || !can_hand_up()) return false;
  const uint64_t seq = mine_;
  mine_ += static_cast<uint64_t>(board_.shape().owners);  // [HOST-9]
  uplink_.engine->submit(chunk_for_all(task_of(seq), seq));
  return true;
}

// What the ranks of this host have offered, as one worker's part. Where they differ, no other host's part is the same:
// all hosts find out.
Collective LocalRank::chunk_for_all(const Task& task, uint64_t seq) const {
  const Collective& whole = task.collective;
  const bool agreed = board_.is_agreed(seq);
  const size_t elements = task.chunk(static_cast<size_t>(seq - task.first_seq)).count;
  Collective chunk = part_of_host(board_, seq, whole, elements, host_map_);
  chunk.tag = agreed ? task.agreed : ~task.agreed;  // [HOST-11]
  chunk.stream = uplink_.stream;                    // [ELANE-6]
  chunk.done = [&board = board_, seq, agreed](const Status& status) {
    if (status.ok()) {
      board.publish(seq, agreed ? Verdict::kReduced : Verdict::kMismatch);
    } else if (status.code() != Code::kAborted) {  // an abort is this rank's alone: the others see that it leaves
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
  if (!task.is_announcement) take_result(task);
  ++oldest_;
  if (board_.shape().owners == 0) mine_ = std::max(mine_, oldest_);
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

bool LocalRank::has_results_to_come() const {
  return attention_.load(std::memory_order_acquire) ||
         std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return !task.is_announcement; });
}

void LocalRank::take_result(const Task& task) {
  const ElementRange chunk = task.chunk(task.finished);
  const bool sums = task.collective.operands() != nullptr;
  (sums ? counters_.elements_summed_in_memory : counters_.bytes_moved_in_memory).add(chunk.count);
  counters_.bytes_written_in_place.add(tensors_.take(task, chunk, oldest_));
  counters_.chunks_completed.add(1);
  const size_t end = chunk.begin + chunk.count;
  task.collective.report_written(chunk.begin, end);
  if (const Gather* gather = task.collective.gather()) {
    for (size_t i = 0; i < gather->written.size(); ++i) task.collective.report_gathered(i, chunk.begin, end);
  }
}

// ---- waiting ----

// Half of the window at once: to wake for every chunk would cost more than the chunks, where ranks share cores. But no
// collective waits for the next one, which other ranks may call much later.
uint64_t LocalRank::awaited(uint64_t first) const {
  const Task& task = task_of(first);
  const uint64_t half = (board_.window() + 1) / 2;
  return std::min({first + half - 1, next_ - 1, task.first_seq + task.chunks - 1});
}

uint32_t LocalRank::fall_asleep() const {
  uint64_t ready = UINT64_MAX;
  uint64_t published = UINT64_MAX;
  if (oldest_ != next_ && called_ > 0) {  // no caller waits for announcements alone
    if (board_.shape().owners == 0 && mine_ < next_) ready = awaited(mine_);
    // Counted, not looked at: later ones may be there before the oldest is. Any further one may be it, then.
    published = std::max(awaited(oldest_), board_.published() + 1);
  }
  return board_.fall_asleep(rank_, ready, published);
}

bool LocalRank::is_roused() const { return has_work() || (status_.ok() && !gone().empty()); }

void LocalRank::sleep(const std::vector<LocalRank*>& local_ranks, Duration timeout) {
  const LocalRank& first = *local_ranks.front();
  uint32_t heard = 0;
  for (const LocalRank* local_rank : local_ranks) {
    const uint32_t doorbell = local_rank->fall_asleep();
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
    if (!task.is_awaited()) continue;  // the other board decides its end
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
  if (status.code() == Code::kMismatch && tasks_.empty() && sibling_ != nullptr && !sibling_->tasks_.empty()) return;
  if (status.code() == Code::kMismatch && !tasks_.empty()) {  // only this rank knows what it called
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
  return std::to_string(host_map_.ranks_here()[static_cast<size_t>(rank)]);
}

// Whether the oldest chunk waits for what `rank` makes of it.
bool LocalRank::owes_part(int rank) const {
  if (board_.shape().owners > 0 || !board_.is_ready(oldest_) || board_.has_made(rank, oldest_)) return false;
  const Verdict verdict = board_.verdict(oldest_);
  return verdict == Verdict::kParts || verdict == Verdict::kTensors;
}

// A rank that has left contributes nothing any more, makes nothing and hands nothing up.
std::string LocalRank::gone() const {
  if (called_ == 0 || oldest_ == next_ || board_.is_published(oldest_)) return {};
  std::string text;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (!board_.has_left(rank)) continue;
    const bool owns = board_.shape().owners > 0 && board_.owner_of(oldest_) == rank;
    if (board_.has_offered(rank, oldest_) && !owns && !owes_part(rank)) continue;
    text += (text.empty() ? "" : ", ") + name_of(rank) + " (left the session)";
  }
  return board_.is_published(oldest_) ? "" : text;  // a rank may publish it last and leave
}

// What is missing of a chunk that this rank has handed up its engine says.
void LocalRank::warn_of_slowness(Time now) {
  looked_at_ = now;
  const auto called = std::find_if(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.is_awaited(); });
  if (called == tasks_.end() || oldest_ == next_) return;
  const bool handed_up = board_.shape().owners > 0 && board_.is_complete(oldest_) && board_.owner_of(oldest_) == rank_;
  const int slot = static_cast<int>(oldest_ % static_cast<uint64_t>(board_.shape().slots));
  if (slow_.show && !handed_up) slow_.show(called->collective, {oldest_, slot, missing_text(now)});
  if (now - stuck_since_ < slow_.after || !slow_.tell || std::exchange(called->is_slow, true)) return;
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
  std::string owing;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (owes_part(rank)) owing += (owing.empty() ? "" : ", ") + name_of(rank);
    if (board_.has_offered(rank, oldest_)) continue;
    missing += (missing.empty() ? "" : ", ") + name_of(rank);
    if (board_.has_left(rank)) missing += " (left the session)";
  }
  std::ostringstream text;
  const double silent = stuck_since_ == kNever ? 0.0 : to_seconds(now - stuck_since_);
  if (!missing.empty()) {
    text << "no contribution from rank " << missing << " for " << silent
         << " s: is that rank dead, stopped, or did it not call this collective?";
  } else if (board_.shape().owners > 0) {
    text << "all ranks of this host have contributed, and rank " << name_of(board_.owner_of(oldest_))
         << " has not got the sum of all hosts for " << silent << " s";
  } else if (!owing.empty()) {
    text << "all ranks have contributed, and rank " << owing << " has not added its part for " << silent
         << " s: is that rank dead or stopped?";
  } else {
    text << "all ranks have contributed, and none has said so for " << silent << " s: is one dead or stopped?";
  }
  return text.str();
}

void LocalRank::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  const bool is_late = status.code() == Code::kTimeout && board_.failure().ok();
  const std::string text = "rank " + name_of(rank_) + " gave up: " + status.message();
  // What this rank has waited for in vain must not succeed on one that was stopped meanwhile.
  if (is_late && board_.shape().owners == 0) {
    board_.fail(Status(Code::kTimeout, text));
    while (status_.ok() && finish_one()) {  // But what is published by now has succeeded on the others.
    }
    if (!status_.ok()) return;
  }
  while (!is_late && make_one()) {  // all have offered these: ranks that go on count on its part
  }
  status_ = status;
  const bool differs = status.code() == Code::kMismatch;  // each rank says what it has called itself
  tensors_.withdraw(oldest_, next_, differs ? status : Status(Code::kUnavailable, text));
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
