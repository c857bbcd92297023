// A stream of records from one process to another, in memory that both see: bounded, one writer, one reader, no lock.
// A writer that dies in the middle of a record has not written it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "messages/message_transport.h"

namespace switchml::shm {

/// One side's view. Its positions are its own: one object for each side, of one thread at a time.
class Ring {
 public:
  /// The size of a ring that holds `capacity` bytes: a power of two, at least 512.
  static constexpr size_t bytes(size_t capacity) { return kHeaderBytes + capacity; }
  static constexpr size_t kHeaderBytes = 3 * 64;
  /// `memory`: bytes(capacity), 64-byte aligned, zero where no side has begun. Borrowed.
  Ring(uint8_t* memory, size_t capacity);

  // ---- the writer ----
  /// Bytes that may stand behind one record.
  size_t most_behind() const { return capacity_ / 8; }
  /// Writes a record and `behind` bytes, at most most_behind(). False: there is no room now. An error: the machine has
  /// no memory for it.
  Result<bool> put(const MessageRecord& record, const void* data, size_t behind);
  /// The reader is to tell (pop) when half of the ring is free. False: there is room after all.
  bool await_room();
  /// What the reader says that it has taken of what is counted by take().
  uint64_t taken() const;

  // ---- the reader ----
  /// Gives memory to what both sides count in. Before anything else.
  Status open() const;
  /// Sees what has been written until now.
  void look();
  /// The next record of what was there at look(), or null; what stands behind it. Until pop().
  const MessageRecord* next(const uint8_t** behind);
  /// Done with it. True: the writer waits for this.
  bool pop();
  /// Tells the writer, when it asks.
  void take(uint64_t bytes);

 private:
  struct Header;
  size_t left() const;
  Status populate(size_t end);

  Header* header_;
  uint8_t* data_;
  size_t capacity_;
  uint64_t mine_ = 0;    // this side's position
  uint64_t others_ = 0;  // the other side's position, as read last
  uint64_t taken_ = 0;
  size_t populated_ = 0;
};

}  // namespace switchml::shm
