#include "shm/host_part.h"

#include <algorithm>
#include <cstring>

#include "slots/chunk_plan.h"

namespace switchml::shm {

namespace {

/// The smallest range of a chunk that covers what the ranks of the host take.
ElementRange wanted_here(const Board& board, uint64_t seq, size_t elements) {
  size_t begin = elements;
  size_t end = 0;
  for (int rank = 0; rank < board.shape().ranks; ++rank) {
    const ChunkCall& call = board.call_of(rank, seq);
    const size_t its_end = std::min<size_t>(call.end, elements);
    if (call.begin >= its_end) continue;
    begin = std::min<size_t>(begin, call.begin);
    end = std::max(end, its_end);
  }
  return {begin, std::max(begin, end) - begin};
}

Reduce reduce(const Board& board, uint64_t seq, ElementRange wanted, const Operands& whole, ElementType type) {
  Reduce part;
  for (int rank = 0; rank < board.shape().ranks; ++rank) part.inputs.push_back(board.frame(rank, seq));
  part.output = {board.result_memory(seq) + wanted.begin * element_bytes(type), wanted.begin,
                 wanted.begin + wanted.count};
  part.divisor = whole.divisor;
  return part;
}

// The frame of the root is its own again once the result is published: so the root's host gets a copy as well.
Broadcast broadcast(const Board& board, uint64_t seq, int root, const HostMap& host_map, bool is_wanted, size_t count) {
  uint8_t* result = board.result_memory(seq);
  if (!host_map.is_here(root)) return {0, nullptr, result};
  const uint8_t* input = board.frame(host_map.local_index(root), seq);
  if (is_wanted) std::memcpy(result, input, count);
  return {0, input, nullptr};
}

Scatter scatter(const Board& board, uint64_t seq, int root, const HostMap& host_map, size_t count) {
  Scatter part{0, {}, board.result_memory(seq)};
  if (!host_map.is_here(root)) return part;
  const uint8_t* piece = board.frame(host_map.local_index(root), seq);
  for (int host = 0; host < host_map.hosts(); ++host, piece += count) part.inputs.push_back(piece);
  return part;
}

// `bytes`: of a rank's piece; `count`: of a host's.
Gather gather(const Board& board, uint64_t seq, const HostMap& host_map, bool is_wanted, size_t bytes, size_t count) {
  Gather part;
  uint8_t* result = board.result_memory(seq);
  uint8_t* own = result + static_cast<size_t>(host_map.host()) * count;
  part.input = own;
  for (int rank = 0; rank < board.shape().ranks; ++rank, own += bytes) std::memcpy(own, board.frame(rank, seq), bytes);
  std::memset(own, 0, count - static_cast<size_t>(board.shape().ranks) * bytes);  // no rank's pieces [MOVED-8]
  for (int host = 0; is_wanted && host < host_map.hosts(); ++host, result += count) {
    part.receive_ranges.push_back({result, 0, count});
  }
  return part;
}

}  // namespace

Collective part_of_host(const Board& board, uint64_t seq, const Collective& whole, size_t elements,
                        const HostMap& host_map) {
  Collective part;
  part.op = whole.op;
  part.type = whole.type;
  part.count = has_piece_of_each(whole.movement()) ? elements * host_map.pieces_of_a_host() : elements;
  part.deadline = whole.deadline;
  part.sequence = whole.sequence;
  part.title = whole.title;
  part.total_count = whole.count;
  part.exactly = whole.exactly;
  const int root = whole.root() < 0 ? -1 : host_map.host_of(whole.root());  // [MOVED-8]
  const ElementRange wanted = wanted_here(board, seq, elements);            // [MOVED-5]
  const bool is_wanted = wanted.count > 0;
  if (const Operands* operands = whole.operands()) {
    part.kind = reduce(board, seq, wanted, *operands, whole.type);
    std::get<Reduce>(part.kind).root = root;
  } else if (std::holds_alternative<Broadcast>(whole.kind)) {
    Broadcast one;
    if (elements > 0) one = broadcast(board, seq, whole.root(), host_map, is_wanted, elements);
    one.root = root;
    part.kind = one;
  } else if (std::holds_alternative<Scatter>(whole.kind)) {
    Scatter one;
    if (elements > 0) one = scatter(board, seq, whole.root(), host_map, part.count);
    one.root = root;
    part.kind = std::move(one);
  } else {
    part.kind = elements > 0 ? gather(board, seq, host_map, is_wanted, elements, part.count) : Gather();
  }
  return part;
}

}  // namespace switchml::shm
