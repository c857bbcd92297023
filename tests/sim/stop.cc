#include "stop.h"

#include <csignal>
#include <initializer_list>

namespace switchml::sim {

namespace {
volatile std::sig_atomic_t g_signal = 0;
void note(int number) { g_signal = number; }
}  // namespace

void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one finds the default again
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

int stop_signal() { return g_signal; }

}  // namespace switchml::sim
