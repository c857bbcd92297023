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

}  // namespace switchml::shm::testing
