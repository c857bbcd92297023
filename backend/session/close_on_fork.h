// Descriptors that a forked child must not hold: a data loader that outlives its parent for a moment would keep its
// connections open, and nobody would notice that the parent has died.
#pragma once

namespace switchml {

/// From now on every child that this process forks begins by closing `fd` (one that executes another program has
/// close-on-exec for it). Thread-safe.
void close_on_fork(int fd);
/// Closes it now. No child that is forked meanwhile keeps it, or closes another one that gets its number.
void close_forgotten(int fd);

}  // namespace switchml
