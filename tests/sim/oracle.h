// What a collective's result must be, bit by bit: the arithmetic of docs/protocol.md written once more, in double
// precision and one element after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "program.h"

namespace switchml::sim {

/// The elements [output_begin, output_end) of the result over ranks 0 to workers-1.
std::vector<uint8_t> expected_result(const Call& call, int workers, size_t payload_bytes);

}  // namespace switchml::sim
