// What a collective's result must be, bit by bit: the arithmetic of docs/protocol.md written once more, one element
// after the other. That of integers in double precision, that of exact sessions in whole numbers of any length.
#pragma once

#include <cstdint>
#include <vector>

#include "program.h"

namespace switchml::sim {

/// The whole result over ranks 0 to workers-1, in a session of these packets; not what each wants of it.
std::vector<uint8_t> expected_result(const Call& call, int workers, const Packets& packets);

}  // namespace switchml::sim
