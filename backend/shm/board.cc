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

size_t in_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

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

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free &&
                  std::atomic<Stores>::is_always_lock_free,
              "between processes there are no locks");

}  // namespace

struct alignas(kLine) Board::Slot {
  std::atomic<uint64_t> offers;     // ever: a multiple of the ranks when all have offered a use
  std::atomic<uint64_t> published;  // the chunk whose result is there
  std::atomic<int32_t> claimed_by;  // rank + 1
  Verdict verdict;
};

struct Board::Offer {
  std::atomic<uint64_t> seq;  // the last chunk offered
  ChunkCall call;
};

/// Lines are fetched in pairs: the next line would come with this one.
struct alignas(kLine) Board::ProbeLine {
  std::atomic<uint64_t> seq;
  std::array<uint8_t, 2 * kLine - sizeof seq> unused;
};

/// Chunks that are ready, in the order in which they became so. A place on it is taken by the number of its turn.
struct Board::ReadyList {
  alignas(kLine) std::atomic<uint64_t> pushed;
  alignas(kLine) std::atomic<uint64_t> claimed;
  alignas(kLine) std::atomic<uint64_t> published;
  alignas(kLine) std::atomic<Stores> stores;  // all ranks use it; the zero that memory begins with is kCached
  alignas(kLine) std::atomic<int32_t> line_score;
};

struct alignas(kLine) Board::Presence {
  std::atomic<uint32_t> doorbell;  // rung for a rank that sleeps
  std::atomic<uint32_t> left;      // 1: it will not offer anything any more
  std::atomic<uint64_t> wanted;    // it sleeps until so many chunks are published; 0: awake
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
    reason = sizeof(ReadyList);
    entries = reason + sizeof(Reason);
    presence = entries + in_lines(slots * sizeof(std::atomic<uint64_t>));
    slot = presence + ranks * sizeof(Presence);
    offer = slot + slots * sizeof(Slot);
    probe_line = offer + in_lines(ranks * slots * sizeof(Offer));
    frames = probe_line + (shape.owners == 0 ? ranks * slots * sizeof(ProbeLine) : 0);
    end = frames + slots * (ranks + 1) * shape.chunk_bytes;
  }
  size_t reason, entries, presence, slot, offer, probe_line, frames, end;
};

// Large chunks cost few wakes; with too many of them in use, frames would fall out of the caches before they are added.
BoardShape shape_for(int ranks) {
  BoardShape shape{ranks, 8, 128 * 1024, 0, 16 * 1024};  // [HOST-7, HOST-8]
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
  SWITCHML_ASSERT(shape.ranks >= 1 && shape.ranks <= kMaxWorkers && shape.slots >= 1 && shape.slots <= kMaxSlots);
  SWITCHML_ASSERT(shape.chunk_bytes % kLine == 0 && reinterpret_cast<uintptr_t>(memory) % kLine == 0);
  const Layout at(shape);
  SWITCHML_ASSERT(shape.owners >= 0 && shape.owners <= shape.ranks);
  memory_ = memory;
  ready_ = reinterpret_cast<ReadyList*>(memory);
  reason_ = reinterpret_cast<Reason*>(memory + at.reason);
  entries_ = reinterpret_cast<std::atomic<uint64_t>*>(memory + at.entries);
  presence_ = reinterpret_cast<Presence*>(memory + at.presence);
  doorbells_ = presence_;
  if (beside != nullptr) {
    reason_ = beside->reason_;
    doorbells_ = beside->doorbells_;
  }
  slots_ = reinterpret_cast<Slot*>(memory + at.slot);
  offers_ = reinterpret_cast<Offer*>(memory + at.offer);
  probe_lines_ = reinterpret_cast<ProbeLine*>(memory + at.probe_line);
  frames_ = memory + at.frames;
}

Board::Slot& Board::slot_of(uint64_t seq) const { return slots_[index(seq)]; }
Board::Offer& Board::offer_of(int rank, uint64_t seq) const {
  return offers_[index(seq) * static_cast<size_t>(shape_.ranks) + static_cast<size_t>(rank)];
}
Board::ProbeLine& Board::probe_line_of(int rank, uint64_t seq) const {
  return probe_lines_[static_cast<size_t>(rank) * static_cast<size_t>(shape_.slots) + index(seq)];
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

void Board::set_stores(Stores stores) const {
  if (stores != this->stores()) ready_->stores.store(stores, std::memory_order_relaxed);
}
Stores Board::stores() const { return ready_->stores.load(std::memory_order_relaxed); }

const std::atomic<uint64_t>* Board::probe_line(int rank, uint64_t seq) const {
  if (shape_.owners > 0) return nullptr;
  return &probe_line_of(rank, seq).seq;
}
std::atomic<int32_t>& Board::line_score() const { return ready_->line_score; }

// ---- offers ----

void Board::offer(int rank, uint64_t seq, const ChunkCall& call) const {
  Offer& mine = offer_of(rank, seq);
  mine.call = call;
  mine.seq.store(seq, std::memory_order_relaxed);
  if (shape_.owners == 0) probe_line_of(rank, seq).seq.store(seq, std::memory_order_relaxed);
  // What all ranks have written before is seen by the one that counts last.
  const uint64_t offers = slot_of(seq).offers.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (offers % static_cast<uint64_t>(shape_.ranks) != 0) return;
  if (shape_.owners == 0) {
    push(seq);
  } else {
    wake(owner_of(seq));
  }
}

bool Board::has_offered(int rank, uint64_t seq) const {
  return offer_of(rank, seq).seq.load(std::memory_order_relaxed) >= seq;
}

// ---- the list of ready chunks: as many places as slots, and no slot is on it twice ----

namespace {
constexpr int kSeqBits = 48;  // low bits of an entry; the turn's lowest bits stand above
constexpr uint64_t kSeqMask = (uint64_t{1} << kSeqBits) - 1;
uint64_t entry_of(uint64_t turn, uint64_t seq) { return ((turn + 1) << kSeqBits) | (seq & kSeqMask); }
bool is_turn(uint64_t entry, uint64_t turn) { return entry >> kSeqBits == ((turn + 1) << kSeqBits) >> kSeqBits; }
}  // namespace

void Board::push(uint64_t seq) const {
  slot_of(seq).claimed_by.store(0, std::memory_order_relaxed);
  const uint64_t turn = ready_->pushed.fetch_add(1, std::memory_order_relaxed);
  entries_[turn % static_cast<uint64_t>(shape_.slots)].store(entry_of(turn, seq), std::memory_order_release);
}

bool Board::any_ready() const {
  const uint64_t turn = ready_->claimed.load(std::memory_order_relaxed);
  const uint64_t entry = entries_[turn % static_cast<uint64_t>(shape_.slots)].load(std::memory_order_acquire);
  return entry != 0 && is_turn(entry, turn);
}

uint64_t Board::claim(int rank) const {
  uint64_t turn = ready_->claimed.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t entry = entries_[turn % static_cast<uint64_t>(shape_.slots)].load(std::memory_order_acquire);
    if (entry == 0 || !is_turn(entry, turn)) return 0;
    if (!ready_->claimed.compare_exchange_weak(turn, turn + 1, std::memory_order_relaxed)) continue;
    const uint64_t seq = entry & kSeqMask;
    slot_of(seq).claimed_by.store(rank + 1, std::memory_order_relaxed);
    return seq;
  }
}

int Board::claimed_by(uint64_t seq) const { return slot_of(seq).claimed_by.load(std::memory_order_relaxed) - 1; }

// ---- results ----

const ChunkCall& Board::call_of(int rank, uint64_t seq) const { return offer_of(rank, seq).call; }

// Between what is read of tensors and whether their ranks have given up, the order counts; these have it the other way
// round (fail).
void Board::reduce(uint64_t seq) const {
  const Verdict verdict = reduce_frames(seq);
  if (reads_tensors(seq)) {
    full_fence();
    if (reason_->state.load(std::memory_order_relaxed) != Reason::kNone) return;
  }
  publish(seq, verdict);
}

bool Board::reads_tensors(uint64_t seq) const {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    if (call_of(rank, seq).from != 0) return true;
  }
  return false;
}

namespace {
bool same(const ChunkCall& a, const ChunkCall& b) {
  return a.agreed == b.agreed && a.elements == b.elements && a.reduction.op == b.reduction.op &&
         a.reduction.type == b.reduction.type;
}
}  // namespace

bool Board::is_agreed(uint64_t seq) const {
  const ChunkCall& call = offer_of(0, seq).call;
  for (int rank = 1; rank < shape_.ranks; ++rank) {
    if (!same(call, offer_of(rank, seq).call)) return false;
  }
  return true;
}

// `part`: the rank that a scatter's piece is for.
const uint8_t* Board::elements_of(int rank, uint64_t seq, int part) const {
  const ChunkCall& call = call_of(rank, seq);
  const auto number = static_cast<size_t>(part);
  return call.from != 0 ? memory_ + call.from + number * call.from_stride : frame(rank, seq) + number * call.elements;
}

// Where the result goes; of a gathering, what `source` has given to it.
size_t Board::targets_of(uint64_t seq, int source, Target* targets) const {
  size_t count = 0;
  bool by_board = false;
  const auto number = static_cast<size_t>(source);
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const ChunkCall& call = call_of(rank, seq);
    if (call.begin >= std::min(call.end, call.elements)) continue;
    if (call.to == 0) {
      by_board = true;
      continue;
    }
    targets[count++] = {memory_ + call.to + number * call.to_stride, call.begin, call.end,
                        call.is_large ? Stores::kNonTemporal : Stores::kCached};
  }
  const uint32_t elements = call_of(0, seq).elements;
  if (by_board) targets[count++] = {result_memory(seq) + number * elements, 0, elements, stores()};
  return count;
}

Verdict Board::reduce_frames(uint64_t seq) const {
  if (!is_agreed(seq)) return Verdict::kMismatch;
  const ChunkCall& call = call_of(0, seq);
  if (call.movement != Movement::kNone) {
    move_frames(call, seq);
    return Verdict::kReduced;
  }
  std::array<const uint8_t*, kMaxWorkers> inputs;
  for (int rank = 0; rank < shape_.ranks; ++rank) inputs[static_cast<size_t>(rank)] = elements_of(rank, seq);
  std::array<Target, kMaxWorkers + 1> targets;
  const size_t count = targets_of(seq, 0, targets.data());
  if (call.elements > 0) {
    reduce_chunk(call.reduction, inputs.data(), shape_.ranks, call.elements, targets.data(), count);
  }
  return Verdict::kReduced;
}

// Frames are their ranks' again when the result is published: so what moves goes through the result, too.
void Board::move_frames(const ChunkCall& call, uint64_t seq) const {
  std::array<Target, kMaxWorkers + 1> targets;
  if (call.movement == Movement::kBroadcast) {
    const size_t count = targets_of(seq, 0, targets.data());
    return copy_chunk(elements_of(call.root, seq), call.elements, targets.data(), count);
  }
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    if (call.movement == Movement::kGather) {
      const size_t count = targets_of(seq, rank, targets.data());
      copy_chunk(elements_of(rank, seq), call.elements, targets.data(), count);
      continue;
    }
    const ChunkCall& its = call_of(rank, seq);
    const bool direct = its.to != 0;
    uint8_t* to = direct ? memory_ + its.to : result_memory(seq) + static_cast<size_t>(rank) * call.elements;
    const Target target{to, 0, call.elements, direct && its.is_large ? Stores::kNonTemporal : stores()};
    copy_chunk(elements_of(call.root, seq, rank), call.elements, &target, 1);
  }
}

// A rank says what it waits for, then looks once more; here it is the other way round. One of both sees the other.
void Board::publish(uint64_t seq, Verdict verdict) const {
  Slot& slot = slot_of(seq);
  slot.verdict = verdict;
  slot.published.store(seq, std::memory_order_release);
  const uint64_t published = ready_->published.fetch_add(1, std::memory_order_seq_cst) + 1;
  full_fence();
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const uint64_t wanted = presence_[rank].wanted.load(std::memory_order_relaxed);
    if (wanted != 0 && (wanted <= published || verdict != Verdict::kReduced)) wake(rank);
  }
}

bool Board::is_published(uint64_t seq) const { return slot_of(seq).published.load(std::memory_order_acquire) == seq; }
Verdict Board::verdict(uint64_t seq) const { return slot_of(seq).verdict; }
const uint8_t* Board::result(uint64_t seq) const { return result_memory(seq); }
uint64_t Board::published() const { return ready_->published.load(std::memory_order_seq_cst); }

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

uint32_t Board::fall_asleep(int rank, uint64_t until_published) const {
  const uint32_t heard = doorbells_[rank].doorbell.load(std::memory_order_acquire);
  presence_[rank].wanted.store(until_published, std::memory_order_relaxed);
  full_fence();
  return heard;
}

void Board::wait_for_bell(int rank, uint32_t heard, Duration timeout) const {
  futex_wait(doorbells_[rank].doorbell, heard, timeout);
}

void Board::awake(int rank) const { presence_[rank].wanted.store(0, std::memory_order_relaxed); }

void Board::wake(int rank) const {
  full_fence();
  if (presence_[rank].wanted.exchange(0, std::memory_order_relaxed) == 0) return;
  std::atomic<uint32_t>& doorbell = doorbells_[rank].doorbell;
  doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(doorbell);
}

}  // namespace switchml::shm
