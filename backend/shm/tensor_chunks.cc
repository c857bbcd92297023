#include "shm/tensor_chunks.h"

#include <array>
#include <cstring>

#include "base/fnv.h"
#include "slots/partial_sum_room.h"

namespace switchml::shm {

namespace {

/// Results of so many bytes are written with non-temporal stores: the first of them would be gone before the last is
/// read.
constexpr size_t kNonTemporalBytes = 16 * 1024 * 1024;

uint64_t agreed_by(const Collective& collective) {
  return fnv1a(&collective.count, sizeof collective.count, agreement_hash(collective));  // [HOST-11]
}

// Copies what `to` wants of elements `chunk`, unless it is there.
void write(ElementType type, const OutputRange& to, ElementRange chunk, const uint8_t* result) {
  const size_t begin = std::max(chunk.begin, to.begin);
  const size_t end = std::min(chunk.begin + chunk.count, to.end);
  if (begin >= end) return;
  const size_t size = element_bytes(type);
  uint8_t* target = static_cast<uint8_t*>(to.data) + (begin - to.begin) * size;
  const uint8_t* from = result + (begin - chunk.begin) * size;
  const bool is_large = (to.end - to.begin) * size >= kNonTemporalBytes;
  if (from != target) fill_frame(from, (end - begin) * size, target, is_large ? Stores::kNonTemporal : Stores::kCached);
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
  const size_t room = chunk_room(collective.op, type, payload_bytes_, partial_sum_ranks_);
  const size_t span = elements_per_span(type, room, exact_);
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
  said.is_in_parts = std::holds_alternative<Reduce>(collective.kind);
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

void TensorChunks::fill(const ChunkedCall& call, ElementRange chunk, const ChunkCall& said, uint8_t* frame,
                        Clock clock) {
  if (chunk.count * element_bytes(call.collective.type) < StoreChoice::kLeast) {
    copy_input(call, chunk, said, frame);
    return;
  }
  const Time begin = clock();
  const size_t bytes = copy_input(call, chunk, said, frame);
  stores_.took(bytes, clock() - begin);
}

// Returns the bytes.
size_t TensorChunks::copy_input(const ChunkedCall& call, ElementRange chunk, const ChunkCall& said,
                                uint8_t* frame) const {
  const Collective& collective = call.collective;
  const size_t first = chunk.begin;
  const size_t elements = chunk.count;
  const size_t size = element_bytes(collective.type);
  const auto copy = [&](const void* from, size_t begin, size_t end) {
    if (begin == end) return size_t{0};  // There may be no input at all.
    const auto* bytes = static_cast<const uint8_t*>(from) + first * size;
    fill_frame(bytes + begin * size, (end - begin) * size, frame + begin * size, stores_.stores());
    return (end - begin) * size;
  };
  const auto* scatter = std::get_if<Scatter>(&collective.kind);
  const bool has_root = scatter != nullptr || std::holds_alternative<Broadcast>(collective.kind);
  if (has_root && !is_root(collective)) return 0;
  if (scatter != nullptr) {
    for (size_t rank = 0; rank < scatter->inputs.size(); ++rank) {
      const auto* piece = static_cast<const uint8_t*>(scatter->inputs[rank]);
      std::memcpy(frame + host_map_.piece_of(static_cast<int>(rank)) * elements, piece + first, elements);
    }
    return 0;
  }
  if (const auto* exchange = std::get_if<Exchange>(&collective.kind)) {
    const auto within = [&](size_t element) { return std::min(elements, std::max(element, first) - first); };
    const size_t end = within(exchange->send_count);
    if (own_input(call, chunk) == nullptr) return copy(exchange->input, 0, end);
    const OutputRange& own = exchange->receive_ranges[static_cast<size_t>(rank_)];
    return copy(exchange->input, 0, within(own.begin)) + copy(exchange->input, within(own.end), end);
  }
  if (own_input(call, chunk) == nullptr || board_.shape().owners > 0 || !board_.is_shared_out(said)) {
    return copy(collective.input(), 0, elements);
  }
  const ElementRange part = board_.part_of(rank_, said);
  return copy(collective.input(), 0, part.begin) + copy(collective.input(), part.begin + part.count, elements);
}

// Precondition: a broadcast or a scatter.
bool TensorChunks::is_root(const Collective& collective) const {
  return host_map_.is_here(collective.root()) && host_map_.local_index(collective.root()) == rank_;
}

// What the caller has in its caches, unless the result of an earlier call may have changed it.
const uint8_t* TensorChunks::own_input(const ChunkedCall& call, ElementRange chunk) const {
  if (!call.keeps_input || call.from.at != 0 || call.collective.input() == nullptr) return nullptr;
  return static_cast<const uint8_t*>(call.collective.input()) + chunk.begin * element_bytes(call.collective.type);
}

// Where the first element goes that is taken of a chunk.
uint8_t* TensorChunks::own_result(const ChunkedCall& call, ElementRange chunk) const {
  const OutputRange output = call.collective.output();
  if (output.data == nullptr) return nullptr;
  const size_t begin = std::max(chunk.begin, output.begin) - output.begin;
  return static_cast<uint8_t*>(output.data) + begin * element_bytes(call.collective.type);
}

void TensorChunks::make(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const {
  if (chunk.count == 0) return;
  const Verdict verdict = board_.verdict(seq);
  if (verdict == Verdict::kTensors) make_own(call, chunk, seq);
  if (verdict == Verdict::kParts)
    board_.make_part(rank_, seq, own_input(call, chunk), own_result(call, chunk), stores_.stores());
}

void TensorChunks::make_own(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const {
  const Collective& collective = call.collective;
  if (const Gather* gather = collective.gather()) {
    const uint8_t* own = std::holds_alternative<Exchange>(collective.kind) ? own_input(call, chunk) : nullptr;
    int rank = 0;
    for (const OutputRange& range : gather->receive_ranges) {
      const bool is_direct = rank == rank_ && own != nullptr;
      write(collective.type, range, chunk, is_direct ? own : board_.elements_of(rank, seq));
      ++rank;
    }
    return;
  }
  if (collective.operands() == nullptr) {
    const int piece = std::holds_alternative<Scatter>(collective.kind) ? rank_ : 0;
    return write(collective.type, collective.output(), chunk, board_.elements_of(collective.root(), seq, piece));
  }
  const ChunkCall& said = board_.call_of(rank_, seq);
  if (said.begin == said.end) return;
  std::array<const uint8_t*, kMaxHostRanks> inputs;
  for (int rank = 0; rank < board_.shape().ranks; ++rank) {
    inputs[static_cast<size_t>(rank)] = board_.elements_of(rank, seq);
  }
  const Target target{own_result(call, chunk), said.begin, said.end,
                      said.is_large ? Stores::kNonTemporal : Stores::kCached};
  reduce_chunk(said.reduction, inputs.data(), board_.shape().ranks, said.begin, said.end, &target, 1);
}

size_t TensorChunks::take(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const {
  if (chunk.count == 0) return 0;
  const ChunkCall& said = board_.call_of(rank_, seq);
  const Verdict verdict = board_.verdict(seq);
  if (verdict == Verdict::kFrames) make_own(call, chunk, seq);
  if (verdict == Verdict::kReduced) take_result(call, chunk, seq);
  if (verdict != Verdict::kParts) return 0;
  if (said.to != 0) return bytes_of_piece(said);
  const ElementRange part = board_.part_of(rank_, said);
  const size_t size = element_bytes(call.collective.type);
  const auto take = [&](size_t begin, size_t end) {
    const ElementRange elements{chunk.begin + begin, end - begin};
    write(call.collective.type, call.collective.output(), elements, board_.result(seq) + begin * size);
  };
  take(0, part.begin);
  take(part.begin + part.count, chunk.count);
  return 0;
}

// A switch has published it for the ranks of this host.
void TensorChunks::take_result(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const {
  const Collective& collective = call.collective;
  const uint8_t* result = board_.result(seq);
  if (std::holds_alternative<Scatter>(collective.kind)) result += static_cast<size_t>(rank_) * chunk.count;
  const Gather* gather = collective.gather();
  if (gather == nullptr) return write(collective.type, collective.output(), chunk, result);
  int rank = 0;
  for (const OutputRange& range : gather->receive_ranges) {
    write(collective.type, range, chunk, result + host_map_.piece_of(rank++) * chunk.count);
  }
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
