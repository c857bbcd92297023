#include "shm/ring.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "shm/segment.h"

namespace switchml::shm {

namespace {

constexpr size_t kUnit = sizeof(MessageRecord);
constexpr size_t kPopulated = 64 * 1024;  // bytes that get memory at once

size_t in_units(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

}  // namespace

/// Positions count on for ever; each line has one writer.
struct Ring::Header {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  std::atomic<uint64_t> taken;
  alignas(64) std::atomic<uint64_t> wanted;  // the writer waits until so much is read, plus one; 0: it does not
};

Ring::Ring(uint8_t* memory, size_t capacity)
    : header_(reinterpret_cast<Header*>(memory)), data_(memory + kHeaderBytes), capacity_(capacity) {
  static_assert(sizeof(Header) == kHeaderBytes && kUnit == 32);
  SWITCHML_ASSERT(capacity >= 512 && (capacity & (capacity - 1)) == 0);
}

Status Ring::open() const { return shm::populate(header_, sizeof *header_); }

// ---- the writer ----

/// Bytes up to the end of the memory.
size_t Ring::left() const { return capacity_ - static_cast<size_t>(mine_ % capacity_); }

Status Ring::populate(size_t end) {
  if (end <= populated_) return {};
  Status status = populated_ == 0 ? open() : Status();
  const size_t until = std::min(capacity_, (end + kPopulated - 1) / kPopulated * kPopulated);
  if (status.ok()) status = shm::populate(data_ + populated_, until - populated_);
  if (status.ok()) populated_ = until;
  return status;
}

// A record lies in one piece: where the end of the memory is too near, filler goes before it.
Result<bool> Ring::put(const MessageRecord& record, const void* data, size_t behind) {
  SWITCHML_ASSERT(behind <= most_behind());
  const size_t needed = kUnit + in_units(behind);
  const size_t filler = left() < needed ? left() : 0;
  if (Status status = populate(filler > 0 ? capacity_ : (mine_ % capacity_) + needed); !status.ok()) return status;
  if (capacity_ - (mine_ - others_) < filler + needed) others_ = header_->read.load(std::memory_order_acquire);
  if (capacity_ - (mine_ - others_) < filler + needed) return false;
  if (filler > 0) {
    const MessageRecord pad{MessageRecord::kFiller, 0, 0, 0, 0};
    std::memcpy(data_ + mine_ % capacity_, &pad, kUnit);
    mine_ += filler;
  }
  uint8_t* const at = data_ + mine_ % capacity_;
  std::memcpy(at, &record, kUnit);
  if (behind > 0) std::memcpy(at + kUnit, data, behind);
  mine_ += needed;
  header_->written.store(mine_, std::memory_order_release);
  return true;
}

// It says what it waits for, then looks once more; the reader has it the other way round. One of both sees the other.
bool Ring::await_room() {
  const uint64_t half = mine_ - capacity_ / 2;
  header_->wanted.store(half + 1, std::memory_order_seq_cst);
  others_ = header_->read.load(std::memory_order_seq_cst);
  if (others_ < half) return true;
  header_->wanted.store(0, std::memory_order_relaxed);
  return false;
}

uint64_t Ring::taken() const { return populated_ == 0 ? 0 : header_->taken.load(std::memory_order_relaxed); }

// ---- the reader ----

void Ring::look() { others_ = header_->written.load(std::memory_order_acquire); }

const MessageRecord* Ring::next(const uint8_t** behind) {
  for (;;) {
    if (mine_ == others_) return nullptr;
    const auto* record = reinterpret_cast<const MessageRecord*>(data_ + mine_ % capacity_);
    if (record->kind != MessageRecord::kFiller) {
      *behind = reinterpret_cast<const uint8_t*>(record) + kUnit;
      return record;
    }
    mine_ += left();  // the next record follows it, and frees both
  }
}

bool Ring::pop() {
  const auto* record = reinterpret_cast<const MessageRecord*>(data_ + mine_ % capacity_);
  mine_ += kUnit + (record->has_bytes_behind() ? in_units(static_cast<size_t>(record->bytes)) : 0);
  header_->read.store(mine_, std::memory_order_seq_cst);
  uint64_t wanted = header_->wanted.load(std::memory_order_seq_cst);
  return wanted != 0 && mine_ >= wanted - 1 && header_->wanted.compare_exchange_strong(wanted, 0);
}

void Ring::take(uint64_t bytes) {
  taken_ += bytes;
  header_->taken.store(taken_, std::memory_order_relaxed);
}

}  // namespace switchml::shm
