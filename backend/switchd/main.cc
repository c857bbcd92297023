// switchml-switchd: the standalone software switch.
#include <csignal>
#include <cstdio>
#include <ctime>

#include "switchd/options.h"
#include "switchd/server.h"
#include "transport/address.h"

namespace switchml {
namespace {

std::string counters_line(const SwitchCounters& counters) {
  std::string text;
  counters.for_each([&text](const CounterInfo& info, uint64_t value) {
    if (value != 0) text += std::string(" ") + info.name + "=" + std::to_string(value);
  });
  return text.empty() ? " nothing received" : text;
}

// Blocked before any thread starts, so that only sigtimedwait() below sees them.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

// True when a signal came, false after `timeout`.
bool wait_for_signal(const sigset_t& set, Duration timeout) {
  const auto whole = std::chrono::duration_cast<seconds>(timeout);
  const timespec limit{static_cast<time_t>(whole.count()), static_cast<long>((timeout - whole).count())};
  return sigtimedwait(&set, nullptr, &limit) > 0;
}

int serve(const CommandLine& line) {
  set_log_level(line.log_level);
  const sigset_t signals = block_signals();
  auto server = SwitchServer::start(line.server);
  if (!server.ok()) {
    std::fprintf(stderr, "switchml-switchd: %s\n", server.status().message().c_str());
    return 1;
  }
  std::printf("listening on %s\n", to_string(server.value()->local()).c_str());
  std::fflush(stdout);

  const Duration interval = line.stats_interval.count() == 0 ? Duration(seconds(3600)) : line.stats_interval;
  while (!wait_for_signal(signals, interval)) {
    if (line.stats_interval.count() != 0) {
      SWITCHML_LOG(kInfo) << "counters:" << counters_line(server.value()->counters());
    }
  }
  SWITCHML_LOG(kInfo) << "final counters:" << counters_line(server.value()->counters());
  return 0;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "switchml-switchd: %s\n", message.c_str());
  return 2;
}

int run(int argc, char** argv) {
  auto line = parse_command_line(argc, argv);
  if (!line.ok()) return refuse(line.status().message());
  if (line->help || line->version) {
    std::fputs(line->help ? help_text().c_str() : "switchml-switchd " SWITCHML_VERSION "\n", stdout);
    return 0;
  }
  auto address = resolve_address(line->listen, "--listen");
  if (!address.ok()) return refuse(address.status().message());
  line->server.listen = address.value();
  return serve(line.value());
}

}  // namespace
}  // namespace switchml

int main(int argc, char** argv) { return switchml::run(argc, argv); }
