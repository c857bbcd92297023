// Sums of floats of which some ranks' terms are together already, at a host of several ranks or at a switch of a tree,
// and which are rounded once nevertheless, where all of them meet [PART-1]. A contribution has the terms themselves, or
// their exact sums: each in the next wider float, and those few that this does not have as integers behind them.
//
// Nothing here allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/element_type.h"

namespace switchml {

/// A contribution, viewed in place.
struct PartialSum {
  ElementType type = ElementType::kFloat32;
  size_t elements = 0;               // At least 1.
  uint32_t divisor = 0;              // Of the sum of all; 0: the header has it. Else over kMaxHeaderDivisor. [PART-3]
  size_t terms = 0;                  // Terms of each element, 1 ... kMaxWorkers; 0: it has sums.
  const uint8_t* numbers = nullptr;  // Those of all elements: first terms, then second terms. Or wide numbers.
  size_t listed = 0;                 // Sums that the wide numbers do not have: these are NaNs there.
  const uint8_t* list = nullptr;     // Of each of them the index, 16 bits, and the sum, fixed_sum_bytes(type).
};

/// The contribution that takes exactly these bytes; none: they are no contribution. Precondition: is_floating(type).
std::optional<PartialSum> parse_partial_sum(ElementType type, const uint8_t* payload, size_t bytes);
/// A contribution that has been parsed before.
PartialSum view_partial_sum(ElementType type, const uint8_t* payload);

/// Elements of one rank, as a contribution of them would have them.
PartialSum term_of(ElementType type, const uint8_t* elements, size_t count);

/// Writes the sum of 1 ... kMaxWorkers parts of one type and one number of elements, as a contribution of at most
/// `room` bytes. Returns its length; 0: it does not fit. `out` overlaps none of them. Thread-safe, as the next one.
size_t write_partial_sum(const PartialSum* parts, size_t count, size_t room, uint8_t* out);
/// Writes the sum of all in their type, divided by `divisor` and then rounded once. [OP-1]
void round_partial_sums(const PartialSum* parts, size_t count, uint32_t divisor, uint8_t* out);

}  // namespace switchml
