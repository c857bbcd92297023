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

void reduce(const Board& board, uint64_t seq, ElementRange wanted, Collective* part) {
  for (int rank = 0; rank < board.shape().ranks; ++rank) part->inputs.push_back(board.frame(rank, seq));
  part->output = board.result_memory(seq) + wanted.begin * element_bytes(part->type);
  part->output_begin = wanted.begin;
  part->output_end = wanted.begin + wanted.count;
}

void broadcast(const Board& board, uint64_t seq, int root, const HostMap& host_map, bool is_wanted, Collective* part) {
  uint8_t* result = board.result_memory(seq);
  if (!host_map.is_here(root)) {
    part->output = result;
    part->output_end = part->count;
    return;
  }
  part->input = board.frame(host_map.local_index(root), seq);
  if (is_wanted) std::memcpy(result, part->input, part->count);  // the frame is its rank's again once that is published
}

void scatter(const Board& board, uint64_t seq, int root, const HostMap& host_map, Collective* part) {
  part->count *= host_map.pieces_of_a_host();
  part->output = board.result_memory(seq);
  part->output_end = part->count;
  if (!host_map.is_here(root)) return;
  const uint8_t* piece = board.frame(host_map.local_index(root), seq);
  for (int host = 0; host < host_map.hosts(); ++host, piece += part->count) part->inputs.push_back(piece);
}

void gather(const Board& board, uint64_t seq, const HostMap& host_map, bool is_wanted, Collective* part) {
  const size_t bytes = part->count;
  part->count *= host_map.pieces_of_a_host();
  uint8_t* result = board.result_memory(seq);
  uint8_t* own = result + static_cast<size_t>(host_map.host()) * part->count;
  part->input = own;
  for (int rank = 0; rank < board.shape().ranks; ++rank, own += bytes) std::memcpy(own, board.frame(rank, seq), bytes);
  std::memset(own, 0, part->count - static_cast<size_t>(board.shape().ranks) * bytes);  // no rank's pieces [MOVED-8]
  for (int host = 0; is_wanted && host < host_map.hosts(); ++host, result += part->count) {
    part->pieces.push_back({result, 0, part->count});
  }
}

}  // namespace

Collective part_of_host(const Board& board, uint64_t seq, const Collective& whole, size_t elements,
                        const HostMap& host_map) {
  Collective part;
  part.op = whole.op;
  part.type = whole.type;
  part.movement = whole.movement;
  part.root = whole.root < 0 ? -1 : host_map.host_of(whole.root);  // [MOVED-8]
  part.count = elements;
  part.divisor = whole.divisor;
  part.deadline = whole.deadline;
  part.sequence = whole.sequence;
  part.title = whole.title;
  part.part_of = whole.count;
  const ElementRange wanted = wanted_here(board, seq, elements);  // [MOVED-5]
  if (whole.movement == Movement::kNone) {
    reduce(board, seq, wanted, &part);
  } else if (elements > 0 && whole.movement == Movement::kBroadcast) {
    broadcast(board, seq, whole.root, host_map, wanted.count > 0, &part);
  } else if (elements > 0 && whole.movement == Movement::kScatter) {
    scatter(board, seq, whole.root, host_map, &part);
  } else if (elements > 0) {
    gather(board, seq, host_map, wanted.count > 0, &part);
  }
  return part;
}

}  // namespace switchml::shm
