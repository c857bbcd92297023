// Sums of many workers' tensors through a tree of switches, with the arithmetic that ships (backend/exact,
// backend/integer). Only the tree is simulated: no packets, no sessions. Elements are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/element_type.h"
#include "base/status.h"

namespace switchml::accuracy {

/// The workers' tensors: `elements` elements of worker 0, then those of worker 1, and so on.
struct Tensors {
  ElementType type;  // float32, float16 or bfloat16.
  const uint8_t* data;
  int workers;
  size_t elements;

  size_t bytes() const { return elements * element_bytes(type); }
  const uint8_t* of(int worker) const { return data + static_cast<size_t>(worker) * bytes(); }
};

/// Workers below each child of a node with `workers` below it in `levels` levels: as few children as all levels can
/// have alike, and workers as evenly as possible. 1 <= levels.
std::vector<int> split(int workers, int levels);

/// switchml::magnitude_bits(), also for more workers than a session takes.
int magnitude_bits(int workers);

/// Exact: each node adds its children's tensors exactly and rounds once to the type. A node takes kMaxWorkers.
Status exact_sum(const Tensors& tensors, int levels, uint8_t* out);

/// Each worker's tensor is added to the sum of those before it, and rounded every time, as in a ring.
void chain_sum(const Tensors& tensors, uint8_t* out);

/// The sum of the tensors by integer switches.
struct IntegerSum {
  std::vector<int32_t> words;  // The root's.
  uint64_t lost = 0;           // Elements of workers other than 0 that became 0.
};
IntegerSum integer_sum(const Tensors& tensors, int levels, uint8_t* out);

}  // namespace switchml::accuracy
