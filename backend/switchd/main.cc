// switchml-switchd: the standalone software switch.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/signals.h"
#include "socket/address.h"
#include "switchd/agent.h"
#include "switchd/options.h"
#include "switchd/server.h"

namespace switchml {
namespace {

std::string counters_line(const SwitchCounters& counters) {
  std::string text;
  counters.for_each([&text](const CounterInfo& info, uint64_t value) {
    if (value != 0) text += std::string(" ") + info.name + "=" + std::to_string(value);
  });
  return text.empty() ? " nothing received" : text;
}

// True when a signal came, false after `timeout`.
bool wait_for_signal(const sigset_t& set, Duration timeout) {
  const auto whole = std::chrono::duration_cast<seconds>(timeout);
  const timespec limit{static_cast<time_t>(whole.count()), static_cast<long>((timeout - whole).count())};
  return sigtimedwait(&set, nullptr, &limit) > 0;
}

void run_until_signal(const CommandLine& line, const sigset_t& signals, const SwitchServer& server) {
  const Duration interval = line.stats_interval.count() == 0 ? Duration(seconds(3600)) : line.stats_interval;
  while (!wait_for_signal(signals, interval)) {
    if (line.stats_interval.count() != 0) {
      SWITCHML_LOG(kInfo) << "counters:" << counters_line(server.counters());
    }
  }
  SWITCHML_LOG(kInfo) << "final counters:" << counters_line(server.counters());
}

int fail(const Status& status) {
  std::fprintf(stderr, "switchml-switchd: %s\n", status.message().c_str());
  return 1;
}

// Null without --agent.
std::unique_ptr<Agent> make_agent(const AgentOptions& options) {
#ifdef SWITCHML_HAS_AGENT
  setenv("GRPC_VERBOSITY", "NONE", 0);  // The messages here replace gRPC's.
  if (!options.listen.empty()) return Agent::create(options);
#else
  static_cast<void>(options);
#endif
  return nullptr;
}

int serve(const CommandLine& line) {
  set_log_level(line.log_level);
  const sigset_t signals = block_end_signals();
  const std::unique_ptr<Agent> agent = make_agent(line.agent);
  ServerOptions options = line.server;
  options.control = agent.get();
  auto server = SwitchServer::start(options);
  if (!server.ok()) return fail(server.status());
  if (agent) {
    if (Status status = agent->serve(*server.value()); !status.ok()) return fail(status);
  }
  std::printf("listening on %s\n", to_string(server.value()->local()).c_str());
  if (agent) std::printf("agent on %s\n", agent->local().c_str());
  std::fflush(stdout);
  run_until_signal(line, signals, *server.value());
  if (agent) agent->stop();
  return 0;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "switchml-switchd: %s\n", message.c_str());
  return 2;
}

#ifndef SWITCHML_HAS_AGENT
constexpr const char* kNoAgent =
    ": this switchml-switchd was built without an agent, which needs gRPC; pip's always is. `make setup` in a source "
    "tree builds one: build/backend/switchd/switchml-switchd. By hand: apt-get install libgrpc++-dev libprotobuf-dev "
    "protobuf-compiler protobuf-compiler-grpc pkg-config, then cmake -S . -B build && cmake --build build --target "
    "switchml-switchd";
#endif

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
#ifndef SWITCHML_HAS_AGENT
  if (!line->agent.listen.empty()) return refuse("--agent=\"" + line->agent.listen + "\"" + kNoAgent);
#endif
  return serve(line.value());
}

}  // namespace
}  // namespace switchml

int main(int argc, char** argv) { return switchml::run(argc, argv); }
