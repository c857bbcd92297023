// Zeroed memory for one board, in this process.
#pragma once

#include <vector>

#include "shm/board.h"

namespace switchml::shm::testing {

class BoardMemory {
 public:
  explicit BoardMemory(const BoardShape& shape) : lines_(shape.bytes() / sizeof(Line)), board_(shape, data()) {}
  BoardMemory(const BoardMemory&) = delete;
  BoardMemory& operator=(const BoardMemory&) = delete;

  uint8_t* data() { return lines_.data()->bytes; }
  const Board& board() const { return board_; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64] = {};
  };
  std::vector<Line> lines_;
  const Board board_;
};

/// Sleeps unless `busy` says that there is something to do.
template <typename Busy>
void sleep_on(const Board& board, int rank, uint64_t until_published, Duration timeout, const Busy& busy,
              uint64_t until_ready = UINT64_MAX) {
  const uint32_t heard = board.fall_asleep(rank, until_ready, until_published);
  if (!busy()) board.wait_for_bell(rank, heard, timeout);
  board.awake(rank);
}

}  // namespace switchml::shm::testing
