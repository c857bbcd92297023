// What a forked child must not do as its parent does. Descriptors that it must not hold: a data loader that outlives
// its parent for a moment would keep its connections open, and nobody would notice that the parent has died.
#pragma once

namespace switchml {

/// From now on every child that this process forks begins by closing `fd` (one that executes another program has
/// close-on-exec for it). Thread-safe.
void close_on_fork(int fd);
/// No longer; whoever owns it closes it. Thread-safe.
void keep_on_fork(int fd);
/// Closes it now. No child that is forked meanwhile keeps it, or closes another one that gets its number.
void close_forgotten(int fd);

/// Changes in every child that this process forks, from the first call on. What notes it at its birth and finds another
/// one has been inherited: its threads are the parent's. Thread-safe.
unsigned fork_generation();

}  // namespace switchml
