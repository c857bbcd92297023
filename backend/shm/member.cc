#include "shm/member.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/assert.h"
#include "base/fnv.h"
#include "base/log.h"
#include "quant/kernels.h"

namespace switchml::shm {

namespace {

constexpr int kRoundsPerStep = 64;  // so that a step looks at deadlines and failures soon again
/// From so many bytes on, results are written past the caches: the first of them would be gone before the last is read.
constexpr size_t kStreamedBytes = 1024 * 1024;

uint64_t agreed_by(const Collective& collective) {
  return fnv1a(&collective.count, sizeof collective.count, agreement_hash(collective));
}

}  // namespace

Member::Member(const Board& board, int rank, std::function<void(const Status&)> on_failure, bool reduces_at_once)
    : board_(board), rank_(rank), reduces_at_once_(reduces_at_once), on_failure_(std::move(on_failure)) {}

void Member::submit(Collective collective) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    submitted_.push_back(std::move(collective));
  }
  wake();
}

void Member::request_failure(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (requested_failure_.ok()) requested_failure_ = status;
  }
  wake();
}

void Member::take_submissions() {
  std::vector<Collective> taken;
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(submitted_);
    failure = requested_failure_;
    attention_.store(false, std::memory_order_release);
  }
  for (Collective& collective : taken) accept(std::move(collective));
  if (!failure.ok()) fail(failure);
}

void Member::accept(Collective collective) {
  if (!status_.ok()) {
    if (collective.done) collective.done(status_);
    return;
  }
  Job job;
  job.agreed = agreed_by(collective);
  job.elements_per_chunk = board_.shape().chunk_bytes / element_bytes(collective.type);
  job.chunks = std::max<size_t>(1, (collective.count + job.elements_per_chunk - 1) / job.elements_per_chunk);
  job.collective = std::move(collective);
  earliest_deadline_ = std::min(earliest_deadline_, job.collective.deadline);
  jobs_.push_back(std::move(job));
}

bool Member::step(Time now) {
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
    const bool offered = offer_one();
    any = any || offered;
    if (reduces_at_once_ || !offered) any = reduce_one() || any;
    if (!any || !status_.ok()) break;
    moved = true;
  }
  if (status_.ok()) check_deadline(now);
  if (status_.ok() && !moved) check_others();
  return moved;
}

bool Member::has_work() const {
  if (attention_.load(std::memory_order_acquire)) return true;
  return status_.ok() && (board_.any_ready() || can_offer() || (oldest_ != next_ && board_.is_published(oldest_)));
}

// ---- from a tensor to the board ----

bool Member::can_offer() const {
  return offering_ < jobs_.size() && next_ - oldest_ < static_cast<uint64_t>(board_.shape().slots);
}

bool Member::offer_one() {
  if (!can_offer()) return false;
  Job& job = jobs_[offering_];
  const Collective& collective = job.collective;
  const size_t first = job.offered * job.elements_per_chunk;
  const size_t elements = std::min(job.elements_per_chunk, collective.count - first);
  const size_t size = element_bytes(collective.type);
  ChunkCall call;
  call.reduction = {collective.op, collective.type, collective.divisor};
  if (elements > 0) {
    const auto* from = static_cast<const uint8_t*>(collective.input) + first * size;
    fill_frame(call.reduction, from, elements, board_.frame(rank_, next_));
  }
  call.agreed = job.agreed;
  call.elements = static_cast<uint32_t>(elements);
  board_.offer(rank_, next_++, call);
  if (++job.offered == job.chunks) ++offering_;
  return true;
}

bool Member::reduce_one() {
  const uint64_t seq = board_.claim(rank_);
  if (seq == 0) return false;
  board_.reduce(seq);
  return true;
}

// ---- and back ----

bool Member::finish_one() {
  if (oldest_ == next_ || !board_.is_published(oldest_)) return false;
  Job& job = jobs_.front();
  if (board_.verdict(oldest_) == Verdict::kMismatch) {
    counters_.witness_failures.add(1);
    fail(Status(Code::kMismatch, "this rank called " + describe(job.collective) +
                                     ", and the other ranks of this host did not: ranks called with different "
                                     "operations, types or sizes"));
    return false;
  }
  take_result(job, job.finished, board_.result(oldest_));
  ++oldest_;
  counters_.chunks_completed.add(1);
  if (++job.finished < job.chunks) return true;
  const auto done = std::move(job.collective.done);
  jobs_.pop_front();
  --offering_;
  if (jobs_.empty()) earliest_deadline_ = kNever;
  if (done) done(Status());
  return true;
}

// The part that the caller wants.
void Member::take_result(const Job& job, size_t chunk, const uint8_t* result) {
  const Collective& collective = job.collective;
  const size_t first = chunk * job.elements_per_chunk;
  const size_t behind = std::min(collective.count, first + job.elements_per_chunk);
  counters_.elements_summed_in_memory.add(behind - first);
  const size_t begin = std::max(first, collective.output_begin);
  const size_t end = std::min(behind, collective.output_end);
  if (begin >= end) return;
  const size_t size = element_bytes(collective.type);
  uint8_t* to = static_cast<uint8_t*>(collective.output) + (begin - collective.output_begin) * size;
  const uint8_t* from = result + (begin - first) * size;
  if ((collective.output_end - collective.output_begin) * size >= kStreamedBytes) {
    quant::kernels().stream(from, to, (end - begin) * size);
  } else {
    std::memcpy(to, from, (end - begin) * size);
  }
}

// ---- waiting ----

// Half of the window at once: to wake for every chunk would cost more than the chunks, where ranks share cores. But no
// collective waits for the next one, which other ranks may call much later.
void Member::sleep(Duration timeout) {
  uint64_t until = UINT64_MAX;
  if (oldest_ != next_) {
    const uint64_t half = static_cast<uint64_t>(board_.shape().slots + 1) / 2;
    until = std::min(oldest_ + half - 1, next_ - 1);
    if (!jobs_.empty()) until = std::min(until, oldest_ + (jobs_.front().chunks - jobs_.front().finished) - 1);
    // Counted, not looked at: later ones may be there before the oldest is. Any further one may be it, then.
    until = std::max(until, board_.published() + 1);
  }
  board_.sleep(rank_, until, timeout, [this] { return has_work() || (status_.ok() && !gone().empty()); });
}

void Member::check_deadline(Time now) {
  if (jobs_.empty() || now < earliest_deadline_) return;
  earliest_deadline_ = kNever;
  for (const Job& job : jobs_) {
    if (now >= job.collective.deadline) {
      fail(Status(Code::kTimeout,
                  describe(job.collective) + " did not complete before its timeout passed: " + missing_text(now)));
      return;
    }
    earliest_deadline_ = std::min(earliest_deadline_, job.collective.deadline);
  }
}

// Who has left will not contribute any more.
std::string Member::gone() const {
  if (oldest_ == next_ || board_.is_published(oldest_)) return {};
  std::string text;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (!board_.has_left(rank) || board_.has_offered(rank, oldest_)) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(rank) + " (left the session)";
  }
  return text;
}

void Member::check_others() {
  const std::string left = gone();
  if (left.empty()) return;
  fail(Status(Code::kUnavailable,
              describe(jobs_.front().collective) + " cannot complete: no contribution from rank " + left));
}

std::string Member::missing_text(Time now) const {
  std::string missing;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    if (board_.has_offered(rank, oldest_)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (board_.has_left(rank)) missing += " (left the session)";
  }
  std::ostringstream text;
  const double silent = stuck_since_ == kNever ? 0.0 : to_seconds(now - stuck_since_);
  const int adding = board_.claimed_by(oldest_);
  if (!missing.empty()) {
    text << "no contribution from rank " << missing << " for " << silent
         << " s: is that rank dead, stopped, or did it not call this collective?";
  } else if (adding >= 0) {
    text << "all ranks have contributed, and rank " << adding << " has been adding them for " << silent
         << " s: is that rank dead or stopped?";
  } else {
    text << "all ranks have contributed, and none has added them for " << silent << " s: is one dead or stopped?";
  }
  return text.str();
}

void Member::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  while (reduce_one()) {  // all have offered these: those that go on count on somebody's doing it
  }
  status_ = status;
  if (status.code() != Code::kAborted) SWITCHML_LOG(kInfo) << "memory of this host: " << status.to_string();
  std::deque<Job> failed;
  failed.swap(jobs_);
  offering_ = 0;
  for (Job& job : failed) {
    if (job.collective.done) job.collective.done(status);
  }
  on_failure_(status);
}

}  // namespace switchml::shm
