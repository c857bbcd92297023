// Calls may wait long for other ranks while the program is to end: Python runs signal handlers, those of Ctrl-C for
// example, only when its main thread comes back from such a call.
#pragma once

namespace switchml {

/// Throws an exception to end the wait of the calling thread.
using InterruptionCheck = void (*)();
/// Sets the check of the process; null: nothing ends a wait.
void set_interruption_check(InterruptionCheck check);

/// Called a few times a second by each wait, without a lock. Throws the check's exception.
void check_interruption();

}  // namespace switchml
