// The rooms that a TCP transport receives into, shared by its connections. The one given back last is taken first: it
// is in the cache still.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/frame_memory.h"

namespace switchml {

struct Piece {
  uint8_t* data = nullptr;
  uint64_t lent_in = 0;  // the last round in which frames in it were lent
};

/// Frames lent in a round, which release() ends, keep their piece from being used again until then. One thread.
class PiecePool {
 public:
  PiecePool(size_t piece_bytes, size_t most) : piece_bytes_(piece_bytes), most_(most) {}

  size_t piece_bytes() const { return piece_bytes_; }
  /// Of those that have been needed so far. Any thread may ask.
  size_t memory_bytes() const { return piece_bytes_ * made_.load(std::memory_order_relaxed); }

  /// Null: all are in use.
  Piece* take() {
    if (free_.empty()) {
      if (pieces_.size() == most_) return nullptr;
      pieces_.push_back(std::make_unique<Piece>(Piece{memory_.allocate(piece_bytes_), 0}));
      made_.store(pieces_.size(), std::memory_order_relaxed);
      return pieces_.back().get();
    }
    Piece* piece = free_.back();
    free_.pop_back();
    return piece;
  }
  void lend(Piece* piece) { piece->lent_in = round_; }
  void give_back(Piece* piece) { (piece->lent_in == round_ ? resting_ : free_).push_back(piece); }
  void release() {
    ++round_;
    free_.insert(free_.end(), resting_.rbegin(), resting_.rend());
    resting_.clear();
  }

 private:
  const size_t piece_bytes_;
  const size_t most_;
  uint64_t round_ = 1;
  FrameMemory memory_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::atomic<size_t> made_{0};
  std::vector<Piece*> free_;
  std::vector<Piece*> resting_;  // given back, with frames that are lent
};

}  // namespace switchml
