#include "shm/tensor_chunks.h"

#include <cstring>

#include "base/fnv.h"
#include "kernels/kernels.h"

namespace switchml::shm {

namespace {

/// Results of so many bytes are written with non-temporal stores: the first of them would be gone before the last is
/// read.
constexpr size_t kNonTemporalBytes = 1024 * 1024;

uint64_t agreed_by(const Collective& collective) {
  return fnv1a(&collective.count, sizeof collective.count, agreement_hash(collective));  // [HOST-11]
}

// Copies what `to` wants of a chunk.
void write(ElementType type, const OutputRange& to, ElementRange chunk, const uint8_t* result) {
  const size_t begin = std::max(chunk.begin, to.begin);
  const size_t end = std::min(chunk.begin + chunk.count, to.end);
  if (begin >= end) return;
  const size_t size = element_bytes(type);
  uint8_t* target = static_cast<uint8_t*>(to.data) + (begin - to.begin) * size;
  const uint8_t* from = result + (begin - chunk.begin) * size;
  if ((to.end - to.begin) * size >= kNonTemporalBytes) {
    kernels().copy_non_temporal(from, target, (end - begin) * size);
  } else {
    std::memcpy(target, from, (end - begin) * size);
  }
}

size_t bytes_of_piece(const ChunkCall& call) { return (call.end - call.begin) * element_bytes(call.reduction.type); }

}  // namespace

void TensorChunks::plan(ChunkedCall* call) const {
  call->agreed = agreed_by(call->collective);
  call->elements_per_chunk = elements_per_chunk(call->collective);
  const size_t elements = call->is_announcement ? 0 : call->collective.count;  // [HOST-6]
  call->chunks = std::max<size_t>(1, (elements + call->elements_per_chunk - 1) / call->elements_per_chunk);
  if (arena_ == nullptr || elements == 0) return;
  call->from = range_of_input(call->collective);
  call->to = range_of_result(call->collective);
}

size_t TensorChunks::elements_per_chunk(const Collective& collective) const {
  const ElementType type = collective.type;
  const size_t most = board_.shape().chunk_bytes / element_bytes(type);
  // A board of small chunks may have no room for all, and then nothing but announcements.
  if (has_piece_of_each(collective.movement())) return std::max<size_t>(most / host_map_.pieces(), 1);  // [MOVED-9]
  if (board_.shape().owners == 0) return most;
  // All packets full but the last, and whole blocks; but too little of a chunk must not stay empty for that.
  const size_t span = elements_per_span(type, payload_bytes_, exact_);
  const size_t whole = most / span * span;
  return most - whole > most / 4 ? most : whole;  // [HOST-7]
}

// Nothing unless the pieces lie in the segment at equal distances. `bytes`: of each.
ArenaRange TensorChunks::arena_range(const std::vector<const void*>& pieces, size_t bytes) const {
  if (pieces.empty()) return {};
  ArenaRange result;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t at = arena_->offset_of(pieces[i], bytes);
    if (at == 0) return {};
    if (i == 0) result.at = at;
    if (i == 1) result.stride = at - result.at;  // modulo 2^64
    if (at != result.at + i * result.stride) return {};
  }
  return result;
}

ArenaRange TensorChunks::range_of_input(const Collective& collective) const {
  const size_t bytes = collective.count * element_bytes(collective.type);
  if (const auto* scatter = std::get_if<Scatter>(&collective.kind)) return arena_range(scatter->inputs, bytes);
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  const void* input = collective.input();
  if (input == nullptr || (exchange != nullptr && exchange->send_count < collective.count)) return {};
  return arena_range({input}, bytes);
}

ArenaRange TensorChunks::range_of_result(const Collective& collective) const {
  const size_t size = element_bytes(collective.type);
  const Gather* gather = collective.gather();
  if (gather == nullptr) {
    const OutputRange output = collective.output();
    return arena_range({output.data}, (output.end - output.begin) * size);
  }
  std::vector<const void*> pieces;
  for (const OutputRange& range : gather->receive_ranges) {
    if (range.begin != 0 || range.end != collective.count) return {};
    pieces.push_back(range.data);
  }
  return arena_range(pieces, collective.count * size);
}

ChunkCall TensorChunks::describe(const ChunkedCall& call, ElementRange chunk) const {
  const Collective& collective = call.collective;
  ChunkCall said;
  const Operands* operands = collective.operands();
  said.reduction = {collective.op, collective.type, operands != nullptr ? operands->divisor : 1};
  said.agreed = call.agreed;
  said.elements = static_cast<uint32_t>(chunk.count);
  said.movement = collective.movement();
  said.root = collective.root();
  if (chunk.count == 0) return said;
  const size_t size = element_bytes(collective.type);
  if (call.from.at != 0) said.from = call.from.at + chunk.begin * size;
  said.from_stride = call.from.stride;
  const Gather* gather = collective.gather();
  OutputRange whole = collective.output();
  if (gather != nullptr && !gather->receive_ranges.empty()) whole.end = collective.count;
  const size_t begin = std::max(chunk.begin, whole.begin);
  const size_t end = std::min(chunk.begin + chunk.count, whole.end);
  said.begin = said.end = 0;
  if (begin >= end) return said;
  said.begin = static_cast<uint32_t>(begin - chunk.begin);
  said.end = static_cast<uint32_t>(end - chunk.begin);
  said.is_large = (whole.end - whole.begin) * size >= kNonTemporalBytes;
  if (call.to.at != 0) said.to = call.to.at + (begin - whole.begin) * size;
  said.to_stride = call.to.stride;
  return said;
}

size_t TensorChunks::pieces_of(const ChunkCall& call) const {
  return call.movement == Movement::kGather ? static_cast<size_t>(board_.shape().ranks) : 1;
}

void TensorChunks::fill(const ChunkedCall& call, ElementRange chunk, uint8_t* frame) const {
  const Collective& collective = call.collective;
  const auto [first, elements] = chunk;
  const size_t size = element_bytes(collective.type);
  const Stores stores = board_.shape().owners == 0 ? board_.stores() : Stores::kCached;
  const auto* scatter = std::get_if<Scatter>(&collective.kind);
  const bool has_root = scatter != nullptr || std::holds_alternative<Broadcast>(collective.kind);
  if (has_root && !is_root(collective)) return;
  if (scatter != nullptr) {
    for (size_t rank = 0; rank < scatter->inputs.size(); ++rank) {
      const auto* piece = static_cast<const uint8_t*>(scatter->inputs[rank]);
      std::memcpy(frame + host_map_.piece_of(static_cast<int>(rank)) * elements, piece + first, elements);
    }
    return;
  }
  const auto* exchange = std::get_if<Exchange>(&collective.kind);
  const size_t given =
      exchange == nullptr ? elements : std::min(elements, std::max(exchange->send_count, first) - first);
  if (given == 0) return;
  const auto* from = static_cast<const uint8_t*>(collective.input()) + first * size;
  fill_frame(from, given * size, frame, stores);
}

// Precondition: a broadcast or a scatter.
bool TensorChunks::is_root(const Collective& collective) const {
  return host_map_.is_here(collective.root()) && host_map_.local_index(collective.root()) == rank_;
}

size_t TensorChunks::take(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const {
  const Collective& collective = call.collective;
  if (call.to.at != 0) {
    const ChunkCall& said = board_.call_of(rank_, seq);
    return pieces_of(said) * bytes_of_piece(said);
  }
  const uint8_t* result = board_.result(seq);
  if (std::holds_alternative<Scatter>(collective.kind)) result += static_cast<size_t>(rank_) * chunk.count;
  const Gather* gather = collective.gather();
  if (gather == nullptr) {
    write(collective.type, collective.output(), chunk, result);
    return 0;
  }
  for (size_t rank = 0; rank < gather->receive_ranges.size(); ++rank) {
    const size_t at = host_map_.piece_of(static_cast<int>(rank)) * chunk.count;
    write(collective.type, gather->receive_ranges[rank], chunk, result + at);
  }
  return 0;
}

// What other ranks have begun to read is void, and what they may still write to is not the tensor any more.
void TensorChunks::withdraw(uint64_t first, uint64_t end, const Status& why) const {
  if (arena_ == nullptr) return;
  std::vector<const ChunkCall*> calls;
  for (uint64_t seq = first; seq != end; ++seq) {
    const ChunkCall& call = board_.call_of(rank_, seq);
    if (!board_.is_published(seq) && (call.from != 0 || call.to != 0)) calls.push_back(&call);
  }
  if (calls.empty()) return;
  board_.fail(why);
  for (const ChunkCall* call : calls) {
    if (call->to == 0) continue;
    for (size_t i = 0; i < pieces_of(*call); ++i) {
      arena_->isolate(call->to + i * call->to_stride, bytes_of_piece(*call));
    }
  }
}

}  // namespace switchml::shm
