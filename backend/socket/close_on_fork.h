// Descriptors that a forked child must not hold as its parent does: a data loader that outlives
// its parent for a moment would keep its connections open, and hide that the parent has died.
#pragma once

namespace switchml {

/// Every child that this process forks from now on begins by closing `fd` (one that executes another program has
/// close-on-exec for it). Thread-safe.
void close_on_fork(int fd);
/// Ends that; its owner closes it. Thread-safe.
void keep_on_fork(int fd);
/// Closes it now. No child that is forked meanwhile keeps it, or closes another one that gets its number.
void close_forgotten(int fd);

/// Changes in every child that this process forks, from the first call on. What notes it at its birth and finds another
/// one has been inherited: its threads are the parent's. Thread-safe.
unsigned fork_generation();

}  // namespace switchml
