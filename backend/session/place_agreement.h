// Where the ranks of a group meet: at a switch, in memory of their host, or both.
#pragma once

#include "session/opening.h"

namespace switchml {

/// The steps from "hello", which all have said, to where all know the place. With a place in memory alone all is
/// agreed.
Status agree_on_place(Opening& opening);

/// On rank 0: what ranks of one machine have between them, of which each has so many busy `threads`; Agreed::local.
void tell_neighbours(const Opening& opening, const std::vector<int>& threads, Blob* blob);
void read_neighbours(Opening& opening, const Blob& blob);

/// On rank 0: where it listens for the others' watches. A group can do without.
void offer_watch(Opening& opening, Blob* blob);
void read_watch(Opening& opening, const Blob& blob);

}  // namespace switchml
