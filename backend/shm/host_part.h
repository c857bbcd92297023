// What the ranks of a host have put on their board, as the part of one worker in a collective of all hosts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.h"
#include "shm/board.h"
#include "shm/host_map.h"

namespace switchml::shm {

/// The part in complete chunk `seq`, of `elements` elements of `whole` (0: its announcement). Its result goes to the
/// board's memory for that, as LocalRank takes it from there; what is there already, it puts there. Of a reduction only
/// what some rank of the host wants. The owner's; the caller sets how ranks agree, and the end.
Collective part_of_host(const Board& board, uint64_t seq, const Collective& whole, size_t elements,
                        const HostMap& host_map);

}  // namespace switchml::shm
