// What the ranks of a job call, and with which numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "random.h"

namespace switchml::sim {

/// What the packets of a session carry: elements, or integers that stand for them.
struct Packets {
  size_t payload_bytes = 256;
  bool native = false;
  bool can(ReduceOp op, ElementType type) const { return native ? native_can(op, type) : integer_can(op, type); }
};

/// What a tensor is filled with.
enum class Fill : uint8_t { kZeros, kSmallIntegers, kOrdinary, kTiny, kHuge, kAnyBits, kSpecials };
inline constexpr int kFills = 7;

/// One collective, as all ranks must call it.
struct Call {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  size_t count = 0;
  size_t output_begin = 0;
  size_t output_end = 0;
  bool in_place = true;
  uint32_t divisor = 1;
  std::string title = "all_reduce";
  uint64_t tag = 0;
  Fill fill = Fill::kOrdinary;
  int shift = 0;      // of the exponents of ordinary numbers
  uint64_t seed = 0;  // of the numbers

  size_t input_bytes() const { return count * element_bytes(type); }
};
using Program = std::vector<Call>;

/// A few calls of any kind, or a few steps of the same calls.
Program draw_program(Random& random, int workers, const Packets& packets);
/// The same call with one thing changed that ranks must agree about.
Call disagree(Random& random, Call call, const Packets& packets);

/// A rank's input.
std::vector<uint8_t> input_of(const Call& call, int rank);

}  // namespace switchml::sim
