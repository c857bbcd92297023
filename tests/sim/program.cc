#include "program.h"

#include <algorithm>
#include <cmath>

#include "formats.h"
#include "nodes.h"

namespace switchml::sim {

namespace {

constexpr ElementType kNarrow[] = {ElementType::kFloat16,    ElementType::kBFloat16,   ElementType::kFloat8E4M3,
                                   ElementType::kFloat8E5M2, ElementType::kScaledInt8, ElementType::kScaledFloat8};

constexpr size_t kMost = 10000;  // Numbers of a call, which the oracle adds one by one.

size_t draw_count(Random& random, size_t chunk) {
  const uint64_t kind = random.below(100);
  if (kind < 6) return 0;
  if (kind < 14) return 1;
  if (kind < 30) return 1 + random.below(chunk);
  if (kind < 40) return chunk;
  if (kind < 85) return 1 + random.below(8 * chunk);
  if (kind < 97) return 1 + random.below(30 * chunk);
  return 1 + random.below(130 * chunk);  // several groups
}

ReduceOp draw_op(Random& random, const Packets& packets) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum,    ReduceOp::kSum,
                               ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kBarrier};
  constexpr ReduceOp kOthers[] = {ReduceOp::kProduct, ReduceOp::kProduct, ReduceOp::kAnd, ReduceOp::kOr,
                                  ReduceOp::kXor};
  if (packets.can(ReduceOp::kSumToFloat32, kNarrow[0]) && random.chance(0.2)) return ReduceOp::kSumToFloat32;
  return packets.exact && random.chance(0.3) ? random.pick(kOthers) : random.pick(kOps);
}

ElementType draw_type(Random& random, ReduceOp op, const Packets& packets) {
  constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kFloat32,  ElementType::kFloat32,
                                    ElementType::kFloat16, ElementType::kBFloat16, ElementType::kInt32,
                                    ElementType::kInt8,    ElementType::kUInt8,    ElementType::kInt16,
                                    ElementType::kInt64};
  constexpr ElementType kOthers[] = {ElementType::kFloat64, ElementType::kFloat64, ElementType::kBool};
  if (op == ReduceOp::kSumToFloat32) return random.pick(kNarrow);
  const ElementType type = packets.exact && random.chance(0.25) ? random.pick(kOthers) : random.pick(kTypes);
  if (packets.can(op, type)) return type;
  return is_bitwise(op) ? ElementType::kBool : ElementType::kInt32;
}

// Of a mean; of sums that travel exactly also one that no header has. [PART-3]
uint32_t draw_divisor(Random& random, int workers, const Packets& packets) {
  const bool is_large = packets.host_ranks > 1 && random.chance(0.5);
  return static_cast<uint32_t>(is_large ? random.between(static_cast<int>(kMaxHeaderDivisor) + 1, kMaxRanks) : workers);
}

// Which rank wants what of a reduction: as all_reduce has it, as reduce, or as reduce_scatter.
void draw_wanted(Random& random, int workers, Call* call) {
  if (random.chance(0.15)) {
    call->root = random.between(0, workers - 1);
    call->title = "reduce";
  } else if (random.chance(0.2)) {
    call->in_parts = true;
    call->title = "reduce_scatter";
  }
  call->in_place = call->in_place && call->title == "all_reduce";
}

Call draw_movement(Random& random, int workers, const Packets& packets) {
  constexpr Movement kMovements[] = {Movement::kBroadcast, Movement::kGather, Movement::kScatter};
  Call call;
  call.seed = random.next();
  call.tag = random.below(3);
  call.type = ElementType::kUInt8;
  call.movement = random.pick(kMovements);
  call.title = "movement";
  call.in_place = false;
  call.count = draw_count(random, packets.payload_bytes);
  if (has_piece_of_each(call.movement)) call.count /= static_cast<size_t>(random.between(1, workers));
  call.output_end = call.count;
  if (call.movement != Movement::kGather || random.chance(0.3)) call.root = random.between(0, workers - 1);
  call.fill = random.chance(0.1) ? Fill::kZeros : Fill::kAnyBits;
  return call;
}

bool may_be_in_place(const Call& call) { return call.ranks == 1 && call.op != ReduceOp::kSumToFloat32; }

Call draw_call(Random& random, int workers, const Packets& packets) {
  if (packets.exact && random.chance(0.3)) return draw_movement(random, workers, packets);
  Call call;
  call.op = draw_op(random, packets);
  call.ranks = packets.host_ranks;
  call.seed = random.next();
  call.tag = random.below(3);
  if (call.op == ReduceOp::kBarrier) {
    call.title = "barrier";
    return call;
  }
  call.type = draw_type(random, call.op, packets);
  call.count = std::min(draw_count(random, packets.chunk(call.op, call.type)), kMost / values_per_element(call.type));
  call.output_end = call.count;
  call.in_place = random.chance(0.6) && may_be_in_place(call);
  if (!call.in_place && call.count > 0 && random.chance(0.3)) {  // as reduce_scatter does
    call.output_begin = random.below(call.count);
    call.output_end = call.output_begin + random.below(call.count - call.output_begin + 1);
  }
  if (sums_floats(call.op, call.type) && random.chance(0.25)) {
    call.divisor = draw_divisor(random, workers, packets);
  }
  if (call.output_begin == 0 && call.output_end == call.count) draw_wanted(random, workers, &call);
  call.fill = static_cast<Fill>(random.below(kFills));
  return call;
}

uint64_t special(Random& random, const Format& format) {
  if (random.chance(0.3)) return format.compose(0, format.top_exponent(), 1 + random.below(7));
  return format.infinity(random.below(2) != 0);
}

uint64_t draw_float(Random& random, const Format& format, Fill fill, int shift) {
  const uint64_t sign = random.below(2);
  const uint64_t mantissa = random.below(uint64_t{1} << format.mantissa_bits);
  const uint64_t lowest = static_cast<uint64_t>(format.bias() - 4 + shift);
  switch (fill) {
    case Fill::kZeros: return format.compose(sign, 0, 0);
    case Fill::kSmallIntegers: return format.encode(static_cast<double>(random.below(33)) - 16);
    case Fill::kOrdinary: return format.compose(sign, lowest + random.below(8), mantissa);
    case Fill::kTiny: return format.compose(sign, random.below(3), mantissa);
    case Fill::kHuge: return format.compose(sign, format.top_exponent() - 1 - random.below(3), mantissa);
    case Fill::kAnyBits: return format.compose(sign, random.below(format.top_exponent() + 1), mantissa);
    case Fill::kSpecials: break;
  }
  if (random.chance(0.02)) return special(random, format);
  return draw_float(random, format, Fill::kOrdinary, shift);
}

uint64_t draw_integer(Random& random, Fill fill) {
  if (fill == Fill::kZeros) return 0;
  if (fill == Fill::kSmallIntegers) return random.below(33) - 16;
  return random.next();
}

// A sum of few floats: two chunks at most.
Call draw_small_sum(Random& random, int workers, const Packets& packets) {
  constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kFloat32, ElementType::kFloat16,
                                    ElementType::kBFloat16};
  Call call;
  call.seed = random.next();
  call.tag = random.below(3);
  if (random.chance(0.2)) call.divisor = draw_divisor(random, workers, packets);
  call.type = random.pick(kTypes);
  call.count = random.chance(0.3) ? 1 : 1 + random.below(packets.payload_bytes / 4 * 3 / 2);
  call.output_end = call.count;
  call.ranks = packets.host_ranks;
  call.in_place = random.chance(0.7) && may_be_in_place(call);
  call.fill = random.chance(0.5) ? Fill::kOrdinary : static_cast<Fill>(random.below(kFills));
  return call;
}

// The same calls step after step, with other numbers, some of them larger or smaller, so that exponents change.
Program draw_training(Random& random, int workers, const Packets& packets) {
  Program step(1, draw_small_sum(random, workers, packets));
  while (step.size() < 3 && random.chance(0.5)) {
    step.push_back(random.chance(0.6) ? draw_small_sum(random, workers, packets) : draw_call(random, workers, packets));
  }
  Program program;
  for (int i = random.between(6, 10); i > 0; --i) {
    for (Call call : step) {
      call.seed = random.next();
      if (random.chance(0.1)) call.fill = static_cast<Fill>(random.below(kFills));
      if (random.chance(0.3)) call.shift = random.between(-3, 3);
      program.push_back(call);
    }
  }
  return program;
}

}  // namespace

// What is rounded where some terms meet has other bits in a tree, or with hosts. [NSUM-5]
bool Packets::can(ReduceOp op, ElementType type) const {
  const bool rounds_parts = op == ReduceOp::kSumToFloat32 || (op == ReduceOp::kProduct && is_floating(type));
  return exact ? exact_can(op, type) && !(partial_sum_ranks > 0 && rounds_parts) : integer_can(op, type);
}

Program draw_program(Random& random, int workers, const Packets& packets) {
  if (random.chance(0.3)) return draw_training(random, workers, packets);
  Program program;
  const int calls = random.between(1, 8);
  for (int i = 0; i < calls; ++i) program.push_back(draw_call(random, workers, packets));
  return program;
}

Call disagree(Random& random, Call call, const Packets& packets) {
  switch (call.op == ReduceOp::kBarrier ? 3 + random.below(2) : random.below(5)) {
    case 0: call.count += 1 + random.below(100); break;
    case 1: call.count -= call.count > 1 ? 1 + random.below(call.count - 1) : 0; break;
    case 2:
      if (call.movement != Movement::kNone) {
        call.root = call.root == 0 ? 1 : 0;
      } else {
        call.op = call.op == ReduceOp::kMin ? ReduceOp::kMax : ReduceOp::kMin;
      }
      break;
    case 3: call.title += "_of_another_kind"; break;
    case 4: call.tag += 17; break;
    default: break;
  }
  if (!packets.can(call.op, call.type)) call.type = ElementType::kInt16;
  call.tag += 1000;  // where nothing else changed
  call.in_place = call.movement == Movement::kNone && call.root < 0 && may_be_in_place(call);
  call.in_parts = false;
  call.output_begin = 0;
  call.output_end = call.count;
  return call;
}

ElementRange Call::wanted(int rank, int workers) const {
  const auto number = static_cast<size_t>(rank);
  const auto size = static_cast<size_t>(workers);
  if (movement == Movement::kScatter) return {number * count, count};
  if (movement == Movement::kBroadcast && rank == root) return {0, 0};
  if (movement != Movement::kBroadcast && root >= 0 && rank != root) return {0, 0};
  if (movement == Movement::kGather) return {0, all(workers)};
  if (!in_parts) return {output_begin, output_end - output_begin};
  const size_t begin = count * number / size;
  return {begin, count * (number + 1) / size - begin};
}

void append(const std::vector<uint8_t>& one, std::vector<uint8_t>* all) {
  all->insert(all->end(), one.begin(), one.end());
}

std::vector<uint8_t> joined_inputs(const Call& call, int workers) {
  std::vector<uint8_t> all;
  for (int worker = 0; worker < workers; ++worker) append(input_of(call, worker), &all);
  return all;
}

std::vector<uint8_t> given_by(const Call& call, int worker, int workers) {
  const bool of_root = call.movement == Movement::kBroadcast || call.movement == Movement::kScatter;
  if (of_root && worker != call.root) return {};
  if (call.movement == Movement::kScatter) return joined_inputs(call, workers);
  std::vector<uint8_t> all;
  for (int rank = 0; rank < call.ranks_of(worker); ++rank) append(input_of(call, worker, rank), &all);
  return all;
}

// As gradients of embeddings are: of the blocks of 256 elements some are zero, or most, on each rank others.
void leave_sparse(Random& random, size_t element_bytes, std::vector<uint8_t>* tensor) {
  const double zeros = random.chance(0.5) ? 0.9 : 0.4;
  const size_t block = 256 * element_bytes;
  for (size_t begin = 0; begin < tensor->size(); begin += block) {
    const auto first = tensor->begin() + static_cast<std::ptrdiff_t>(begin);
    if (random.chance(zeros)) std::fill_n(first, std::min(block, tensor->size() - begin), uint8_t{0});
  }
}

uint64_t draw_number(Random& random, ElementType type, const Call& call) {
  return is_floating(type) ? draw_float(random, format_of(type), call.fill, call.shift)
                           : draw_integer(random, call.fill);
}

// A scale, often far from 1, and numbers. [NSUM-3]
void draw_block(Random& random, const Call& call, uint8_t* out) {
  const bool is_near = random.chance(0.7);
  out[0] = static_cast<uint8_t>(is_near ? 120 + random.below(16) : random.below(256));
  const ElementType inner = call.type == ElementType::kScaledInt8 ? ElementType::kInt8 : ElementType::kFloat8E4M3;
  for (size_t i = 1; i < kScaledBytes; ++i) out[i] = static_cast<uint8_t>(draw_number(random, inner, call));
}

std::vector<uint8_t> input_of(const Call& call, int worker, int rank) {
  std::vector<uint8_t> out(call.count * element_bytes(call.type));
  Random random(call.seed ^ mix(static_cast<uint64_t>(worker + kMostWorkers * rank) + 1));
  const size_t bytes = element_bytes(call.type);
  for (size_t i = 0; i < call.count; ++i) {
    if (is_scaled(call.type)) {
      draw_block(random, call, out.data() + i * bytes);
    } else {
      store_raw(out.data(), i, bytes, draw_number(random, call.type, call));
    }
  }
  if (call.movement == Movement::kNone && mix(call.seed) % 3 == 0) leave_sparse(random, bytes, &out);
  return out;
}

}  // namespace switchml::sim
