#include "shm/board.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/limits.h"
#include "shm/futex.h"
#include "shm/segment.h"

namespace switchml::shm {

namespace {

constexpr size_t kLine = 64;
/// BoardShape::few_bytes times the ranks: each of them would add the frames of all.
constexpr size_t kFewBytesOfAll = 64 * 1024;

/// What was written before is there for others before anything is read behind. The thread sanitizer of GCC does not
/// follow fences and warns; what this one orders is atomic on both sides.
void full_fence() {
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "between processes there are no locks");

}  // namespace

struct alignas(kLine) Board::Slot {
  std::atomic<uint64_t> offers;     // ever: a multiple of the ranks when all have offered a use
  std::atomic<uint64_t> ready;      // the last chunk that all have offered
  std::atomic<uint64_t> published;  // the last chunk that is published
  std::atomic<int32_t> made;        // ranks that have made theirs of a chunk that is ready
  Verdict verdict;
};

struct alignas(kLine) Board::Offer {
  std::atomic<uint64_t> seq;   // the last chunk offered
  std::atomic<uint64_t> made;  // the last chunk of which it has made its part
  ChunkCall call;
};

struct alignas(kLine) Board::Progress {
  std::atomic<uint64_t> published;  // How many chunks: a later one may be published first.
};

struct alignas(kLine) Board::Presence {
  std::atomic<uint32_t> doorbell;          // rung for a rank that sleeps
  std::atomic<uint32_t> left;              // 1: it will not offer anything any more
  std::atomic<uint64_t> wanted_ready;      // it sleeps until this chunk is ready; 0: awake
  std::atomic<uint64_t> wanted_published;  // or so many are published; 0: awake
};

struct alignas(kLine) Board::Reason {
  enum State : uint32_t { kNone = 0, kBeingWritten = 1, kGiven = 2 };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> code;
  std::array<char, kMaxReason> text;  // up to the first 0
};

/// Where the parts of a board lie, in bytes from its beginning.
struct Board::Layout {
  explicit Layout(const BoardShape& shape) {
    const auto ranks = static_cast<size_t>(shape.ranks);
    const auto slots = static_cast<size_t>(shape.slots);
    reason = sizeof(Progress);
    presence = reason + sizeof(Reason);
    slot = presence + ranks * sizeof(Presence);
    offer = slot + slots * sizeof(Slot);
    frames = offer + ranks * slots * sizeof(Offer);
    end = frames + slots * (ranks + 1) * shape.chunk_bytes;
  }
  size_t reason, presence, slot, offer, frames, end;
};

// Large chunks cost few wakes; with too many of them in use, frames would fall out of the caches before they are added.
BoardShape shape_for(int ranks) {
  BoardShape shape{ranks, 8, 128 * 1024, 0, 16 * 1024};  // [HOST-7, HOST-8]
  shape.few_bytes = kFewBytesOfAll / static_cast<size_t>(ranks);
  while (Board::bytes(shape) > kMaxBoardBytes) shape.chunk_bytes /= 2;
  while (Board::bytes(shape.short_shape()) > kMaxShortBoardBytes) shape.short_chunk_bytes /= 2;
  return shape;
}

// Chunks must be the same on all hosts. Each takes a round trip for its exponents, so that smaller ones cost packets.
BoardShape shape_on_host(int ranks, int most, int owners) {
  BoardShape shape = shape_for(most);  // [HOST-8]
  shape.ranks = ranks;
  shape.owners = owners;
  return shape;
}

size_t BoardShape::bytes() const {
  return Board::bytes(*this) + (short_chunk_bytes > 0 ? Board::bytes(short_shape()) : 0);
}
size_t Board::bytes(const BoardShape& shape) { return Layout(shape).end; }

Board::Board(const BoardShape& shape, uint8_t* memory, const Board* beside) : shape_(shape) {
  SWITCHML_ASSERT(shape.ranks >= 1 && shape.ranks <= kMaxHostRanks && shape.slots >= 1 && shape.slots <= kMaxSlots);
  SWITCHML_ASSERT(shape.chunk_bytes % kLine == 0 && reinterpret_cast<uintptr_t>(memory) % kLine == 0);
  const Layout at(shape);
  SWITCHML_ASSERT(shape.owners >= 0 && shape.owners <= shape.ranks);
  memory_ = memory;
  progress_ = reinterpret_cast<Progress*>(memory);
  reason_ = reinterpret_cast<Reason*>(memory + at.reason);
  presence_ = reinterpret_cast<Presence*>(memory + at.presence);
  doorbells_ = presence_;
  if (beside != nullptr) {
    reason_ = beside->reason_;
    doorbells_ = beside->doorbells_;
  }
  slots_ = reinterpret_cast<Slot*>(memory + at.slot);
  offers_ = reinterpret_cast<Offer*>(memory + at.offer);
  frames_ = memory + at.frames;
}

Board::Slot& Board::slot_of(uint64_t seq) const { return slots_[index(seq)]; }
Board::Offer& Board::offer_of(int rank, uint64_t seq) const {
  return offers_[index(seq) * static_cast<size_t>(shape_.ranks) + static_cast<size_t>(rank)];
}
// A slot's result, then the elements of each rank.
size_t Board::slot_bytes() const { return (static_cast<size_t>(shape_.ranks) + 1) * shape_.chunk_bytes; }
uint8_t* Board::frame(int rank, uint64_t seq) const {
  return result_memory(seq) + (static_cast<size_t>(rank) + 1) * shape_.chunk_bytes;
}
uint8_t* Board::result_memory(uint64_t seq) const { return frames_ + index(seq) * slot_bytes(); }

Status Board::populate_headers(const BoardShape& shape, uint8_t* memory) {
  Status status = shm::populate(memory, Layout(shape).frames);
  if (!status.ok() || shape.short_chunk_bytes == 0) return status;
  return populate_headers(shape.short_shape(), memory + bytes(shape));
}
Status Board::populate(uint64_t seq) const { return shm::populate(result_memory(seq), slot_bytes()); }

// ---- offers ----

void Board::offer(int rank, uint64_t seq, const ChunkCall& call) const {
  Offer& mine = offer_of(rank, seq);
  mine.call = call;
  mine.seq.store(seq, std::memory_order_relaxed);
  // What all ranks have written before is seen by the one that counts last.
  Slot& slot = slot_of(seq);
  const uint64_t offers = slot.offers.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (offers % static_cast<uint64_t>(shape_.ranks) != 0) return;
  if (shape_.owners > 0) return wake(owner_of(seq));
  const Verdict verdict = verdict_on(seq);
  slot.verdict = verdict;
  slot.made.store(0, std::memory_order_relaxed);
  slot.ready.store(seq, std::memory_order_release);
  const bool is_final = verdict == Verdict::kMismatch || (verdict == Verdict::kFrames && !is_overdue());
  if (is_final) publish(seq, verdict);
  full_fence();
  for (int other = 0; other < shape_.ranks; ++other) {
    const uint64_t wanted = presence_[other].wanted_ready.load(std::memory_order_relaxed);
    if (wanted != 0 && wanted <= seq) wake(other);
  }
}

bool Board::has_offered(int rank, uint64_t seq) const {
  return offer_of(rank, seq).seq.load(std::memory_order_relaxed) >= seq;
}

uint64_t Board::window() const {
  const auto slots = static_cast<uint64_t>(shape_.slots);
  return shape_.owners > 0 ? slots : std::max<uint64_t>(1, slots / 2);
}

bool Board::is_ready(uint64_t seq) const { return slot_of(seq).ready.load(std::memory_order_acquire) == seq; }

bool Board::is_shared_out(const ChunkCall& call) const {
  return call.is_in_parts && call.elements * element_bytes(call.reduction.type) > shape_.few_bytes;
}

Verdict Board::verdict_on(uint64_t seq) const {
  if (!is_agreed(seq)) return Verdict::kMismatch;
  const ChunkCall& call = call_of(0, seq);
  const bool tensors = reads_tensors(seq);
  if (tensors ? call.is_in_parts : is_shared_out(call)) return Verdict::kParts;
  return tensors || shape_.slots < 2 ? Verdict::kTensors : Verdict::kFrames;
}

bool Board::reads_tensors(uint64_t seq) const {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    if (call_of(rank, seq).from != 0) return true;
  }
  return false;
}

// ---- results ----

const ChunkCall& Board::call_of(int rank, uint64_t seq) const { return offer_of(rank, seq).call; }

ElementRange Board::part_of(int rank, const ChunkCall& call) const {
  const size_t in_line = std::max<size_t>(kLine / element_bytes(call.reduction.type), 1);
  const auto ranks = static_cast<size_t>(shape_.ranks);
  const size_t each = ((call.elements + ranks - 1) / ranks + in_line - 1) / in_line * in_line;
  const size_t begin = std::min<size_t>(call.elements, static_cast<size_t>(rank) * each);
  return {begin, std::min<size_t>(each, call.elements - begin)};
}

void Board::make_part(int rank, uint64_t seq, const uint8_t* own_input, uint8_t* own_result, Stores stores) const {
  const ChunkCall& call = call_of(rank, seq);
  const auto [begin, count] = part_of(rank, call);
  std::array<const uint8_t*, kMaxHostRanks> inputs;
  std::array<Target, kMaxHostRanks + 1> targets;
  size_t results = 0;
  bool by_board = false;
  for (int other = 0; other < shape_.ranks; ++other) {
    inputs[static_cast<size_t>(other)] = elements_of(other, seq);
    const ChunkCall& its = call_of(other, seq);
    if (its.begin >= its.end) continue;
    uint8_t* to = its.to != 0 ? memory_ + its.to : other == rank ? own_result : nullptr;
    by_board = by_board || to == nullptr;
    const Stores its_stores = its.is_large ? Stores::kNonTemporal : Stores::kCached;
    if (to != nullptr) targets[results++] = {to, its.begin, its.end, its_stores};
  }
  if (own_input != nullptr) inputs[static_cast<size_t>(rank)] = own_input;
  if (by_board) targets[results++] = {result_memory(seq), 0, call.elements, stores};
  reduce_chunk(call.reduction, inputs.data(), shape_.ranks, begin, begin + count, targets.data(), results);
}

// Between what is read of tensors and whether their ranks have given up, the order counts; these have it the other way
// round (fail).
void Board::made(int rank, uint64_t seq) const {
  if (reads_tensors(seq)) {
    full_fence();
    if (reason_->state.load(std::memory_order_relaxed) != Reason::kNone) return;
  }
  if (is_overdue()) return;
  offer_of(rank, seq).made.store(seq, std::memory_order_relaxed);
  Slot& slot = slot_of(seq);
  if (slot.made.fetch_add(1, std::memory_order_acq_rel) + 1 == shape_.ranks) publish(seq, slot.verdict);
}

bool Board::has_made(int rank, uint64_t seq) const {
  return offer_of(rank, seq).made.load(std::memory_order_relaxed) >= seq;
}

namespace {
bool same(const ChunkCall& a, const ChunkCall& b) {
  return a.agreed == b.agreed && a.elements == b.elements && a.reduction.op == b.reduction.op &&
         a.reduction.type == b.reduction.type && a.is_in_parts == b.is_in_parts;
}
}  // namespace

bool Board::is_agreed(uint64_t seq) const {
  const ChunkCall& call = offer_of(0, seq).call;
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    if (!same(call, offer_of(rank, seq).call)) return false;
  }
  return true;
}

const uint8_t* Board::elements_of(int rank, uint64_t seq, int piece) const {
  const ChunkCall& call = call_of(rank, seq);
  const auto number = static_cast<size_t>(piece);
  return call.from != 0 ? memory_ + call.from + number * call.from_stride : frame(rank, seq) + number * call.elements;
}

// A rank says what it waits for, then looks once more; here it is the other way round. One of both sees the other.
void Board::publish(uint64_t seq, Verdict verdict) const {
  Slot& slot = slot_of(seq);
  if (shape_.owners > 0) slot.verdict = verdict;
  slot.published.store(seq, std::memory_order_release);
  const uint64_t published = progress_->published.fetch_add(1, std::memory_order_seq_cst) + 1;
  full_fence();
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const uint64_t wanted = presence_[rank].wanted_published.load(std::memory_order_relaxed);
    if (wanted != 0 && (wanted <= published || verdict == Verdict::kMismatch)) wake(rank);
  }
}

bool Board::is_published(uint64_t seq) const { return slot_of(seq).published.load(std::memory_order_acquire) == seq; }
Verdict Board::verdict(uint64_t seq) const { return slot_of(seq).verdict; }
const uint8_t* Board::result(uint64_t seq) const { return result_memory(seq); }
uint64_t Board::published() const { return progress_->published.load(std::memory_order_seq_cst); }

// ---- with owners ----

// The slot's uses up to this one have been offered by all: offers count on from use to use.
bool Board::is_complete(uint64_t seq) const {
  const auto slots = static_cast<uint64_t>(shape_.slots);
  const uint64_t uses = (seq + slots - 1) / slots;
  const uint64_t offers = slot_of(seq).offers.load(std::memory_order_acquire);
  return offers == uses * static_cast<uint64_t>(shape_.ranks) && !is_published(seq);
}

void Board::fail(const Status& status) const {
  uint32_t none = Reason::kNone;
  const bool first = reason_->state.compare_exchange_strong(none, Reason::kBeingWritten, std::memory_order_relaxed);
  full_fence();  // before anything of this rank's tensors changes
  if (!first) return;
  const std::string& text = status.message();
  std::memcpy(reason_->text.data(), text.data(), std::min(text.size(), kMaxReason));
  reason_->code.store(static_cast<uint32_t>(status.code()), std::memory_order_relaxed);
  reason_->state.store(Reason::kGiven, std::memory_order_release);
  for (int rank = 0; rank < shape_.ranks; ++rank) wake(rank);
}

bool Board::is_overdue() const {
  return reason_->state.load(std::memory_order_acquire) == Reason::kGiven &&
         reason_->code.load(std::memory_order_relaxed) == static_cast<uint32_t>(Code::kTimeout);
}

Status Board::failure() const {
  if (reason_->state.load(std::memory_order_acquire) != Reason::kGiven) return {};
  const uint32_t code = reason_->code.load(std::memory_order_relaxed);
  const bool known = code != static_cast<uint32_t>(Code::kOk) && code <= static_cast<uint32_t>(Code::kInternal);
  return {known ? static_cast<Code>(code) : Code::kInternal,
          std::string(reason_->text.data(), strnlen(reason_->text.data(), kMaxReason))};
}

// ---- presence and sleep ----

void Board::leave(int rank) const {
  presence_[rank].left.store(1, std::memory_order_seq_cst);
  for (int other = 0; other < shape_.ranks; ++other) wake(other);
}
bool Board::has_left(int rank) const { return presence_[rank].left.load(std::memory_order_acquire) != 0; }

bool Board::is_deserted() const {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    if (!has_left(rank)) return false;
  }
  return true;
}

uint32_t Board::fall_asleep(int rank, uint64_t until_ready, uint64_t until_published) const {
  const uint32_t heard = doorbells_[rank].doorbell.load(std::memory_order_acquire);
  // In this order, so that a wake of the sleep before either sees this one or does not undo it.
  presence_[rank].wanted_published.exchange(until_published, std::memory_order_acq_rel);
  presence_[rank].wanted_ready.store(until_ready, std::memory_order_release);
  full_fence();
  return heard;
}

void Board::wait_for_bell(int rank, uint32_t heard, Duration timeout) const {
  futex_wait(doorbells_[rank].doorbell, heard, timeout);
}

void Board::awake(int rank) const {
  presence_[rank].wanted_ready.store(0, std::memory_order_relaxed);
  presence_[rank].wanted_published.store(0, std::memory_order_relaxed);
}

void Board::wake(int rank) const {
  full_fence();
  if (presence_[rank].wanted_published.load(std::memory_order_relaxed) == 0) return;
  presence_[rank].wanted_ready.store(0, std::memory_order_relaxed);
  if (presence_[rank].wanted_published.exchange(0, std::memory_order_acq_rel) == 0) return;
  std::atomic<uint32_t>& doorbell = doorbells_[rank].doorbell;
  doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(doorbell);
}

}  // namespace switchml::shm
