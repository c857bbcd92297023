// A call may wait long for other ranks, on a thread whose program wants to end: Python runs what a signal asks for,
// Ctrl-C say, only when its main thread comes back from such a call.
#pragma once

namespace switchml {

/// Throws what is to end the wait of the calling thread.
using InterruptionCheck = void (*)();
/// For the process; null: nothing ends a wait.
void set_interruption_check(InterruptionCheck check);

/// Callers that wait call it a few times in each second, without a lock. Throws what the check throws.
void check_interruption();

}  // namespace switchml
