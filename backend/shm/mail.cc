#include "shm/mail.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "shm/futex.h"
#include "shm/segment.h"

namespace switchml::shm {

namespace {
constexpr size_t kBoxLine = 64;
constexpr size_t kWordBits = RankSet::kWordBits;
constexpr size_t kWords = kMaxHostRanks / kWordBits;
static_assert(kMaxHostRanks % kWordBits == 0);
}  // namespace

size_t mail_begin(const BoardShape& shape) { return in_pages(shape.bytes()); }
size_t mail_bytes(const BoardShape& shape) { return shape.owners > 0 ? 0 : in_pages(Mail::bytes(shape.ranks)); }
Status populate_mail(const BoardShape& shape, uint8_t* segment) {
  return shape.owners > 0 ? Status() : populate(segment + mail_begin(shape), Mail::boxes_bytes(shape.ranks));
}

struct alignas(kBoxLine) Mail::Box {
  std::array<std::atomic<uint64_t>, kWords> signals;  // a bit for each rank that has signalled
  std::atomic<uint64_t> tickets;
  std::atomic<uint32_t> sleeper;
  alignas(kBoxLine) std::array<std::atomic<uint32_t>, 2> doorbells;
  alignas(kBoxLine) std::atomic<uint32_t> state;
  std::array<char, kMaxReason> reason;  // up to the first 0; written before the state
};

size_t Mail::capacity(int ranks) {
  const size_t rings = static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
  size_t capacity = kMaxCapacity;
  while (rings * Ring::bytes(capacity) > kMaxRingsBytes) capacity /= 2;
  return capacity;
}

// Among the rings are those of ranks to themselves, which no rank touches: they take no memory.
size_t Mail::bytes(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  return boxes_bytes(ranks) + n * n * Ring::bytes(capacity(ranks));
}

size_t Mail::boxes_bytes(int ranks) { return static_cast<size_t>(ranks) * sizeof(Box); }

Mail::Mail(int ranks, uint8_t* memory)
    : ranks_(ranks), boxes_(reinterpret_cast<Box*>(memory)), rings_(memory + boxes_bytes(ranks)) {
  SWITCHML_ASSERT(ranks >= 1 && ranks <= kMaxHostRanks && reinterpret_cast<uintptr_t>(memory) % kBoxLine == 0);
}

Ring Mail::ring(int from, int to) const {
  const size_t number = static_cast<size_t>(from) * static_cast<size_t>(ranks_) + static_cast<size_t>(to);
  return {rings_ + number * Ring::bytes(capacity(ranks_)), capacity(ranks_)};
}

uint64_t Mail::ticket(int to) const { return boxes_[to].tickets.fetch_add(1, std::memory_order_relaxed) + 1; }

// ---- signals ----

// The sleeper says that it sleeps, then looks for signals; here it is the other way round. One of both sees the other.
void Mail::signal(int from, int to) const {
  const auto bit = static_cast<size_t>(from);
  boxes_[to].signals[bit / kWordBits].fetch_or(uint64_t{1} << (bit % kWordBits), std::memory_order_seq_cst);
  wake(to);
}

bool Mail::any_signal(int rank) const {
  const auto& words = boxes_[rank].signals;
  return std::any_of(words.begin(), words.end(), [](const auto& word) { return word.load() != 0; });
}

RankSet Mail::take_signals(int rank) const {
  RankSet all;
  for (size_t word = 0; word < kWords; ++word) {
    std::atomic<uint64_t>& signals = boxes_[rank].signals[word];
    if (signals.load(std::memory_order_relaxed) != 0) all.add(word, signals.exchange(0, std::memory_order_acq_rel));
  }
  return all;
}

// ---- sleep ----

namespace {
size_t doorbell_of(Mail::Sleeper who) { return static_cast<size_t>(who) - 1; }
}  // namespace

uint32_t Mail::doorbell(int rank, Sleeper who) const {
  return boxes_[rank].doorbells[doorbell_of(who)].load(std::memory_order_acquire);
}
void Mail::fall_asleep(int rank, Sleeper who) const {
  boxes_[rank].sleeper.store(static_cast<uint32_t>(who), std::memory_order_seq_cst);
}
void Mail::awake(int rank) const {
  boxes_[rank].sleeper.store(static_cast<uint32_t>(Sleeper::kNobody), std::memory_order_relaxed);
}
void Mail::wait_for_bell(int rank, Sleeper who, uint32_t heard, Duration timeout) const {
  futex_wait(boxes_[rank].doorbells[doorbell_of(who)], heard, timeout);
}
void Mail::wake(int rank) const {
  std::atomic<uint32_t>& sleeper = boxes_[rank].sleeper;
  if (sleeper.load(std::memory_order_seq_cst) == 0) return;
  const auto who = static_cast<Sleeper>(sleeper.exchange(0));
  if (who != Sleeper::kNobody) ring_for(rank, who);
}
void Mail::ring_for(int rank, Sleeper who) const {
  std::atomic<uint32_t>& doorbell = boxes_[rank].doorbells[doorbell_of(who)];
  doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(doorbell);
}

// ---- departure ----

void Mail::go(int rank, State how, const std::string& reason) const {
  Box& box = boxes_[rank];
  if (state(rank) != State::kHere) return;
  std::memcpy(box.reason.data(), reason.data(), std::min(reason.size(), kMaxReason));
  box.state.store(static_cast<uint32_t>(how), std::memory_order_release);
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank) signal(rank, other);
  }
}
Mail::State Mail::state(int rank) const {
  return static_cast<State>(boxes_[rank].state.load(std::memory_order_acquire));
}
std::string Mail::reason(int rank) const {
  const char* const text = boxes_[rank].reason.data();
  return {text, strnlen(text, kMaxReason)};
}

}  // namespace switchml::shm
