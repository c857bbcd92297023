// SIGINT and SIGTERM end a long run after the seed that is running; a second one ends it at once.
#pragma once

namespace switchml::sim {

void stop_on_signals();
/// The signal that came; 0: none.
int stop_signal();

}  // namespace switchml::sim
